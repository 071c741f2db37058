"""The `esper` command: one file for each command group, each with a `register(app)`. Imports `api` and below."""
