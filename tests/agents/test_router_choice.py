"""The router: preference for agents that can act, and project agents next to the bundled ones."""

from __future__ import annotations

from esper_agents.agents.definition import read_definition
from esper_agents.agents.registry import load_registry
from esper_agents.agents.router import Router
from esper_agents.agents.routing.weights import load_weights
from esper_agents.domain.route import RouteOutcome

OURS = tuple(load_registry(None).agents.values())
ROUTER = Router(OURS)
BETWEEN = "the compiled step got slower, which kernels take the time?"

COBOL = """---
name: cobol
description: Moves COBOL copybooks and JCL jobs to Python. Do not use for COBOL documentation.
examples:
  - {text: "how do I port this copybook?", for: true}
  - {text: "why does the JCL job abend after the move", for: true}
  - {text: "translate the PICTURE clauses of this file", for: true}
  - {text: "is this packed decimal read right in Python?", for: true}
  - {text: "which paragraphs of the program are dead?", for: true}
  - {text: "document the COBOL copybooks for new colleagues", for: false, instead: technical-writer}
---
You port COBOL.
"""


def project_agent(text: str = COBOL):
    return read_definition(text.encode(), path="cobol.md", stem="cobol", namespace="project")


def test_of_agents_that_fit_almost_equally_one_that_can_act_is_selected_and_the_explanation_says_so():
    first, second = ROUTER.route(BETWEEN).candidates[:2]
    scores = {first.agent: 0.2, second.agent: 0.2 - load_weights().close_margin / 2}
    assert ROUTER._best_able(scores, [first, second], {second.agent}) == second.agent
    assert ROUTER._best_able(scores, [first, second], None) == first.agent
    assert ROUTER._best_able({**scores, second.agent: -1.0}, [first, second], {second.agent}) == first.agent


def test_an_agent_that_clearly_fits_best_is_selected_even_if_it_cannot_act():
    assert ROUTER.route("my loss is NaN", able={"profiler"}).agent == "nan-debugger"


def test_five_example_sentences_are_enough_for_an_agent_of_the_project():
    router = Router((*OURS, project_agent()))
    for request in (
        "can you port the copybook CUST01?",
        "the JCL job abends since we moved it",
        "is the packed decimal in this record read right?",
    ):
        route = router.route(request)
        assert (route.outcome, route.agent) == (RouteOutcome.ASSIGNED, "project:cobol"), route.explanation


def test_an_example_for_another_agent_hands_the_request_to_that_agent():
    router = Router((*OURS, project_agent()))
    route = router.route("please document the COBOL copybooks for our new colleagues")
    assert route.agent == "technical-writer"


def test_a_project_agent_may_be_about_a_subject_that_is_otherwise_refused():
    baker = COBOL.replace("cobol", "baker").replace("Moves COBOL copybooks and JCL jobs to Python.", "Bakes sourdough.")
    baker = baker.replace("how do I port this copybook?", "why does my sourdough not rise?")
    request = "my sourdough does not rise, why?"
    assert ROUTER.route(request).outcome is RouteOutcome.REFUSED
    assert Router((*OURS, project_agent(baker))).route(request).agent == "project:baker"
