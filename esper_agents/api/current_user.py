"""Name of the current user as the operating system reports it; not verified."""

from __future__ import annotations


def person() -> str:
    """Return the name of whoever runs this; `unknown` where the system knows none."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
