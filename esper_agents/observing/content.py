"""Span content exported only on request: prompts, answers, tool arguments and results."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.redaction import redacted
from esper_agents.domain.codec import carried

if TYPE_CHECKING:
    from collections.abc import Mapping

# Characters of one attribute; backends cut or refuse what is longer.
_MOST = 65_536


@dataclass(frozen=True, slots=True)
class Content:
    """Lets content through, or does not.

    Attributes:
        is_wanted: Whether it does.
    """

    is_wanted: bool

    def text(self, content: Any) -> str:
        """Return content as text without secrets, cut where it is very long; empty where it is not wanted."""
        if not self.is_wanted or not content:
            return ""
        clean = redacted(content).value
        text = carried(clean if isinstance(clean, str) else json.dumps(clean, ensure_ascii=False, sort_keys=True))
        rest = len(text) - _MOST
        return f"{text[:_MOST]} [cut: {rest:,} characters more]" if rest > 0 else text

    def message(self, role: str, text: object) -> str:
        """Return a text as the one message of `gen_ai.input.messages` or `gen_ai.output.messages`."""
        part: Mapping[str, Any] = {"type": "text", "content": text}
        ended = {"finish_reason": "stop"} if role == "assistant" else {}
        return self.text([{"role": role, "parts": [part], **ended}] if text else [])
