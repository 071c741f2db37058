"""Canonical JSON (RFC 8785), the form that is digested and signed."""

from __future__ import annotations

import json
import re

# Up to here names stand in the order of their characters; beyond, RFC 8785 goes by the halves of UTF-16.
_BEYOND = re.compile("[\ud800-\U0010ffff]")


def canonical_bytes(value: object) -> bytes:
    """Return JSON in RFC 8785 bytes.

    Python's own encoder writes the same, twenty times as fast, where no character is beyond those it sorts alike.

    Args:
        value: Objects, lists, texts, truths, nothing and integers up to 53 bits; no floats, which `to_json` leaves none
            of.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    if text.isascii() or not _BEYOND.search(text):
        return text.encode()
    import rfc8785

    return rfc8785.dumps(value)  # type: ignore[arg-type]
