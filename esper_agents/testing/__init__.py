"""What another package tests its agents with: a scripted Messages API, recorded exchanges, checks for reasoners."""

from __future__ import annotations

from esper_agents.testing.exchanges import Replayer
from esper_agents.testing.messages import MessagesServer
from esper_agents.testing.recording import Recorder
from esper_agents.testing.script import (
    Answer,
    Cut,
    Fail,
    Hang,
    InputUsage,
    Nonsense,
    Part,
    Request,
    Say,
    Script,
    Slow,
    Stop,
    Think,
    Use,
)

__all__ = [
    "Answer",
    "Cut",
    "Fail",
    "Hang",
    "InputUsage",
    "MessagesServer",
    "Nonsense",
    "Part",
    "Recorder",
    "Replayer",
    "Request",
    "Say",
    "Script",
    "Slow",
    "Stop",
    "Think",
    "Use",
]
