"""Tokens of one server: the start token of its URL, the cookie of a browser, the token of its forms."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Guessing needs no limit: one that refused the right token as well would let others lock the user out.
_BYTES = 32


class Access:
    """Decides whether a request belongs to a browser of the user."""

    def __init__(self, port: int, announce: Callable[[str], None]) -> None:
        """Draw the tokens.

        Args:
            port: Port of the server; cookies are sent to all ports of a host, so the name has it.
            announce: Called with a new start token after the previous one was used.
        """
        self.cookie_name = f"esper-{port}"
        self.form_token = secrets.token_urlsafe(_BYTES)
        self.start_token = secrets.token_urlsafe(_BYTES)
        self._cookie = secrets.token_urlsafe(_BYTES)
        self._announce = announce

    def exchange(self, token: str) -> str:
        """Return the `Set-Cookie` value for a start token, which is void from then on; empty for a wrong one."""
        if not secrets.compare_digest(token.encode(), self.start_token.encode()):
            return ""
        self.start_token = secrets.token_urlsafe(_BYTES)
        self._announce(self.start_token)
        return f"{self.cookie_name}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"

    def has_cookie(self, headers: tuple[str, ...]) -> bool:
        """Return whether the `Cookie` headers of a request have the cookie of this server."""
        # Split here: `http.cookies` drops all cookies after one of another program that it cannot read.
        pairs = (pair.strip().partition("=") for header in headers for pair in header.split(";"))
        values = [value for name, _, value in pairs if name == self.cookie_name]
        return any(secrets.compare_digest(value.encode(), self._cookie.encode()) for value in values)

    def is_form_token(self, token: str) -> bool:
        """Return whether a form of this server sent the token."""
        return secrets.compare_digest(token.encode(), self.form_token.encode())
