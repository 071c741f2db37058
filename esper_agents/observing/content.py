"""Span content exported only on request: prompts, answers, tool arguments and results."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.redaction import redacted
from esper_agents.domain.codec import carried

if TYPE_CHECKING:
    from collections.abc import Mapping

# Maximum characters of one attribute; backends truncate or reject longer ones.
_MOST = 65_536


@dataclass(frozen=True, slots=True)
class Content:
    """Filter for the content of spans.

    Attributes:
        is_wanted: Whether content is exported.
    """

    is_wanted: bool

    def text(self, content: Any) -> str:
        """Return content as text without secrets, truncated if very long; empty if content is not exported."""
        if not self.is_wanted or not content:
            return ""
        clean = redacted(content).value
        text = carried(clean if isinstance(clean, str) else json.dumps(clean, ensure_ascii=False, sort_keys=True))
        rest = len(text) - _MOST
        return f"{text[:_MOST]} [truncated: {rest:,} more characters]" if rest > 0 else text

    def message(self, role: str, text: object) -> str:
        """Return a text as the single message of `gen_ai.input.messages` or `gen_ai.output.messages`."""
        part: Mapping[str, Any] = {"type": "text", "content": text}
        ended = {"finish_reason": "stop"} if role == "assistant" else {}
        return self.text([{"role": role, "parts": [part], **ended}] if text else [])
