"""LangGraph graph of a session: three nodes, one routing function, one exit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from esper_agents.orchestration.certify import certify
from esper_agents.orchestration.handoff_limits import MOST_HOPS
from esper_agents.orchestration.langgraph_names import (
    END,
    START,
    Runtime,  # LangGraph reads the annotations of nodes
    StateGraph,
    tracing_context,
)
from esper_agents.orchestration.next_node import GraphNode, where
from esper_agents.orchestration.poison_session import conclude_poisoned, is_poisoned
from esper_agents.orchestration.routing import route
from esper_agents.orchestration.session_run import SessionRun
from esper_agents.orchestration.turn import MOST_TURNS, take_turns

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph


class GraphState(TypedDict):
    """State that LangGraph holds; the ledger contains the rest."""

    session: str


@dataclass(frozen=True, slots=True)
class GraphContext:
    """Context that nodes receive in addition to the state."""

    run: SessionRun


Work: TypeAlias = Callable[[SessionRun], Awaitable[None]]
Graph: TypeAlias = "CompiledStateGraph[GraphState, GraphContext, GraphState, GraphState]"

# Every handoff and every consult adds one visit of a node.
_RECURSION_LIMIT = 4 * (MOST_HOPS + MOST_TURNS)


def build_graph(end: Work = certify) -> Graph:
    """Return the compiled graph. `where` selects its entry and its edges; only `certify` has an edge to the end.

    Args:
        end: Work of the last node; a replay compares there and issues nothing.
    """
    graph: StateGraph[GraphState, GraphContext, GraphState, GraphState] = StateGraph(
        GraphState, context_schema=GraphContext
    )
    for place, work in ((GraphNode.ROUTE, route), (GraphNode.SPECIALIST, take_turns), (GraphNode.CERTIFY, end)):
        _add(graph, place, work)
    names = [str(each) for each in GraphNode]
    for source in (START, GraphNode.ROUTE, GraphNode.SPECIALIST):
        graph.add_conditional_edges(source, _next, names)
    graph.add_edge(GraphNode.CERTIFY, END)
    return graph.compile()


def _add(graph: StateGraph[GraphState, GraphContext, GraphState, GraphState], place: GraphNode, work: Work) -> None:
    """Add a node. Type checkers do not see the return type of a node, so all nodes are created here."""

    async def node(state: GraphState, runtime: Runtime[GraphContext]) -> GraphState:
        await work(runtime.context.run)
        return state

    graph.add_node(place, node)


async def _next(state: GraphState, runtime: Runtime[GraphContext]) -> str:  # noqa: ARG001 - the ledger is the state
    return where(runtime.context.run.history)


async def drive(graph: Graph, run: SessionRun) -> None:
    """Run a session until it ends or waits for a user.

    Tracing is disabled even if the environment enables LangSmith, because a trace would send the session's content.
    """
    if is_poisoned(run):
        await conclude_poisoned(run)
    with tracing_context(enabled=False):
        await graph.ainvoke({"session": run.session}, {"recursion_limit": _RECURSION_LIMIT}, context=GraphContext(run))
