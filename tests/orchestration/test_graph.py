from __future__ import annotations

import pytest
from langgraph.graph import END, START

from esper_agents.orchestration.graph import build_graph
from esper_agents.orchestration.where import Place


def edges():
    return [(edge.source, edge.target) for edge in build_graph().get_graph().edges]


def reachable(start):
    seen, waiting = set(), [start]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting.extend(target for source, target in edges() if source == node)
    return seen


def test_every_path_to_the_end_passes_certify():
    assert {source for source, target in edges() if target == END} == {Place.CERTIFY}


def test_certify_leads_nowhere_but_to_the_end():
    assert [target for source, target in edges() if source == Place.CERTIFY] == [END]


def test_every_node_can_be_reached_and_every_node_reaches_the_end():
    nodes = set(build_graph().get_graph().nodes)
    assert nodes == {START, END, *map(str, Place)}
    assert reachable(START) == nodes
    assert all(END in reachable(node) for node in nodes)


def test_a_run_may_enter_at_any_place_so_that_a_resumed_one_is_the_same_run():
    assert {target for source, target in edges() if source == START} == set(map(str, Place))


@pytest.mark.anyio
async def test_an_edge_to_a_name_that_is_not_there_is_an_error(monkeypatch):
    from types import SimpleNamespace

    from esper_agents.orchestration import graph
    from esper_agents.orchestration.graph import drive

    monkeypatch.setattr(graph, "where", lambda _history: "elsewhere")
    run = SimpleNamespace(session="ses_1", history=None)
    with pytest.raises(KeyError, match="elsewhere"):
        await drive(build_graph(), run)
