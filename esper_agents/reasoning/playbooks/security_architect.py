"""The offline security architect: what loads, executes or downloads, read from the code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.domain.finding import Category
from esper_agents.reasoning.static_specialist import SpecialistProfile, work

if TYPE_CHECKING:
    from collections.abc import Generator

    from esper_agents.domain.agent_action import Conclude, Move
    from esper_agents.domain.frame import Brief

_SPECIALISM = SpecialistProfile(
    categories=(Category.SECURITY,),
    searches=("torch.load(", "pickle", "subprocess"),
    meanings={
        "unsafe-load": "Whoever writes the file decides what runs when it is loaded.",
        "unsafe-pickle": "Unpickling runs what the data says; no check before it helps.",
        "unpinned-hub": "A hub call without a revision runs what the repository holds on that day.",
    },
    measured=(),
    why_measure="",
    is_whole=True,
)


def play(brief: Brief) -> Generator[Move, Any, Conclude]:
    """Review the security rules and inspect the code for the topics of the request."""
    return (yield from work(brief, _SPECIALISM))
