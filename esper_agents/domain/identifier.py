"""Identifiers: UUID version 7 with a prefix for the type of object."""

from __future__ import annotations

import re
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


_IDENTIFIER = re.compile(r"(?:ses|crt|ev|fnd|qst|mem|ntc|imp)_[0-9a-f]{32}")


def new_id(prefix: Prefix) -> str:
    """Return a new identifier such as `ses_0198f0...`; later ones sort after earlier ones."""
    from uuid_utils import uuid7

    return f"{prefix}_{uuid7().hex}"


def is_id(text: str) -> bool:
    """Return whether the whole text is an identifier, of any prefix."""
    return _IDENTIFIER.fullmatch(text) is not None
