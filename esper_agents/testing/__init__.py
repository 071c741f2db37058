"""Test support for other packages: a scripted Messages API, recordings, reasoner conformance."""

from __future__ import annotations

from esper_agents.renamed import aliases
from esper_agents.testing.exchanges import Replayer
from esper_agents.testing.messages import MessagesServer
from esper_agents.testing.recording import Recorder
from esper_agents.testing.script import (
    Answer,
    Fail,
    Hang,
    InputUsage,
    Part,
    RawBytes,
    Request,
    Say,
    Script,
    Slow,
    Stop,
    Think,
    ToolUseBlock,
    TruncateResponse,
)

__all__ = [
    "Answer",
    "Fail",
    "Hang",
    "InputUsage",
    "MessagesServer",
    "Part",
    "RawBytes",
    "Recorder",
    "Replayer",
    "Request",
    "Say",
    "Script",
    "Slow",
    "Stop",
    "Think",
    "ToolUseBlock",
    "TruncateResponse",
]

__getattr__ = aliases(__name__, {"Cut": "TruncateResponse", "Nonsense": "RawBytes", "Use": "ToolUseBlock"})
