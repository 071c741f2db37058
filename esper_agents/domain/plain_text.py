"""Reduce untrusted text to plain text without control characters or lone surrogates."""

from __future__ import annotations

import re

# C0 except tab and line feed, DEL, C1, and surrogates, which UTF-8 cannot encode.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def plain(text: str) -> str:
    r"""Return text as recorded.

    CR LF becomes LF. Every other control character but tab and LF, and every lone surrogate, becomes its escape as six
    visible characters, such as `\u001b`. Idempotent.
    """
    # Most texts of a certificate; both checks are faster than one search.
    if text.__class__ is str and text.isascii() and text.isprintable():
        return text
    return _UNFIT.sub(_escape, text.replace("\r\n", "\n"))


def is_plain(text: str) -> bool:
    """Return whether `plain` would leave the text unchanged."""
    return (text.isascii() and text.isprintable()) or _UNFIT.search(text) is None


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"
