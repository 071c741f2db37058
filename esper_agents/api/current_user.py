"""Name of the current user as the operating system reports it; not verified."""

from __future__ import annotations


def person() -> str:
    """Return the name of the current user; `unknown` if the system has none."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
