"""The LangGraph graph: three nodes, edges that are one function of the ledger, and one way to the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime  # noqa: TC002 - LangGraph reads the annotations of nodes
from langsmith import tracing_context

from esper_agents.orchestration.certify import certify
from esper_agents.orchestration.giving_up import give_up, is_hopeless
from esper_agents.orchestration.hops import MOST_HOPS
from esper_agents.orchestration.routing import route
from esper_agents.orchestration.run import Run
from esper_agents.orchestration.turn import MOST_TURNS, take_turns
from esper_agents.orchestration.where import Place, where

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph


class State(TypedDict):
    """All that LangGraph holds; the ledger holds the rest."""

    session: str


@dataclass(frozen=True, slots=True)
class Context:
    """What nodes get beside the state."""

    run: Run


Work: TypeAlias = Callable[[Run], Awaitable[None]]
Graph: TypeAlias = "CompiledStateGraph[State, Context, State, State]"

# Each hop and each consult is one more visit of a node.
_RECURSION_LIMIT = 4 * (MOST_HOPS + MOST_TURNS)


def build_graph(end: Work = certify) -> Graph:
    """Return the compiled graph. Its entry and its edges are `where`; the only edge to the end leaves `certify`.

    Args:
        end: What is done at the end; a replay compares there and issues nothing.
    """
    graph: StateGraph[State, Context, State, State] = StateGraph(State, context_schema=Context)
    for place, work in ((Place.ROUTE, route), (Place.SPECIALIST, take_turns), (Place.CERTIFY, end)):
        _add(graph, place, work)
    names = [str(each) for each in Place]
    for source in (START, Place.ROUTE, Place.SPECIALIST):
        graph.add_conditional_edges(source, _next, names)
    graph.add_edge(Place.CERTIFY, END)
    return graph.compile()


def _add(graph: StateGraph[State, Context, State, State], place: Place, work: Work) -> None:
    """Add a node. Checkers do not see what a node returns, so all nodes are made here."""

    async def node(state: State, runtime: Runtime[Context]) -> State:
        await work(runtime.context.run)
        return state

    graph.add_node(place, node)


async def _next(state: State, runtime: Runtime[Context]) -> str:  # noqa: ARG001 - the ledger is the state
    return where(runtime.context.run.history)


async def drive(graph: Graph, run: Run) -> None:
    """Run a session until it ends or waits for a person.

    Nothing of it is traced, even where the environment has LangSmith trace whatever LangGraph runs: that would send it.
    """
    if is_hopeless(run):
        await give_up(run)
    with tracing_context(enabled=False):
        await graph.ainvoke({"session": run.session}, {"recursion_limit": _RECURSION_LIMIT}, context=Context(run))
