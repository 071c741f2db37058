"""Parts of the router: passages, features, weights, definitions, names of agents, and citations.

`passages` and `features` read a request; `weights` scores it for the bundled agents, `definitions` for all others;
`mentions` finds the names of agents, and `citations` the words that decided.
"""
