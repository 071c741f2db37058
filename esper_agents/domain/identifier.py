"""Identifiers: UUID version 7 with a prefix for the type of object."""

from __future__ import annotations

import os
import re
import threading
import time
from enum import StrEnum


class Prefix(StrEnum):
    """Prefix for the type of object that an identifier names."""

    SESSION = "ses"
    CERTIFICATE = "crt"
    EVIDENCE = "ev"
    FINDING = "fnd"
    QUESTION = "qst"
    NOTE = "mem"
    NOTICE = "ntc"
    IMPORTED = "imp"


_CLOCK = threading.Lock()
_last_tick = 0
_IDENTIFIER = re.compile(r"(?:ses|crt|ev|fnd|qst|mem|ntc|imp)_[0-9a-f]{32}")


def new_id(prefix: Prefix) -> str:
    """Return a new identifier such as `ses_0198f0...`; later ones of a process sort after earlier ones."""
    return f"{prefix}_{_uuid7():032x}"


def is_id(text: str) -> bool:
    """Return whether the whole text is an identifier, of any prefix."""
    return _IDENTIFIER.fullmatch(text) is not None


def _uuid7() -> int:
    """Return a UUID of version 7.

    Source:
        RFC 9562, sections 5.7 and 6.2, method 3: milliseconds, their fraction in 12 bits, 62 random bits.
    """
    global _last_tick  # noqa: PLW0603 - the clock of the process
    with _CLOCK:
        # Ticks of 1/4096 ms; the clock of the machine may stand still or step back.
        _last_tick = max(time.time_ns() * 4096 // 1_000_000, _last_tick + 1)
        milliseconds, fraction = divmod(_last_tick, 4096)
    chance = int.from_bytes(os.urandom(8), "big") >> 2
    return milliseconds << 80 | 7 << 76 | fraction << 64 | 2 << 62 | chance
