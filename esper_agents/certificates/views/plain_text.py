"""Reduce untrusted text to plain text without control characters or lone surrogates."""

from __future__ import annotations

import re

# All of C0 but tab and line feed, DEL, all of C1, and surrogates, which UTF-8 cannot carry.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def plain(text: str) -> str:
    r"""Return text as it goes on record.

    CR LF becomes LF. Every other control character but tab and LF, and every lone surrogate, becomes its escape as six
    visible characters, such as `\u001b`. What is plain already stays as it is, so applying it twice changes nothing.
    """
    return _UNFIT.sub(_escape, text.replace("\r\n", "\n"))


def is_plain(text: str) -> bool:
    """Return whether `plain` would leave the text as it is."""
    return _UNFIT.search(text) is None


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"
