"""Pages in the user's browser."""

from __future__ import annotations

import os
import sys


def open_in_browser(url: str) -> bool:
    """Open a page in the browser; return False if there is no browser."""
    if not _has_display():
        return False
    import webbrowser

    # The browser process must not inherit the signing key.
    os.environ.pop("ESPER_SIGNING_KEY_FILE", None)
    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False


def _has_display() -> bool:
    """Return whether a graphical browser can open; a text browser would take over the terminal."""
    return sys.platform in {"darwin", "win32"} or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
