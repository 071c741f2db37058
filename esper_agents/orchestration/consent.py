"""Consent to send a project's source to a model server, per project and server."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from esper_agents.certificates.signing.signing_key import write_whole
from esper_agents.errors import UsageError
from esper_agents.storage.store import timestamp

if TYPE_CHECKING:
    from pathlib import Path

_FILE = "models-may-read.json"
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|[0-9a-f:.]{2,45}")


@dataclass(frozen=True, slots=True)
class Consent:
    """A user's decision on sending a project's source to a server.

    Attributes:
        host: Server, as in the address of a request.
        by: Name of the user.
        at: Time, as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
        is_agreed: Whether sending is allowed.
    """

    host: str
    by: str
    at: str
    is_agreed: bool = True


class ConsentError(UsageError):
    """Source code would be sent without consent."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"no consent to send the source of this project to {host}",
            remedy=f"run `esper models allow {host}`, or use --reasoner playbook",
        )


def consents(home: Path) -> tuple[Consent, ...]:
    """Return the recorded decisions by server. An unreadable file gives no consent.

    Args:
        home: Folder of the project in the data directory.
    """
    try:
        told = json.loads((home / _FILE).read_text(encoding="utf-8"))
        found = [
            Consent(str(each["host"]), str(each["by"]), str(each["at"]), each["is_agreed"] is True) for each in told
        ]
    except (OSError, ValueError, TypeError, KeyError):
        return ()
    return tuple(sorted(found, key=lambda each: each.host))


def is_agreed(home: Path, host: str) -> bool:
    """Return whether a user consented to sending source to a server."""
    return any(consent.host == host and consent.is_agreed for consent in consents(home))


def host_of(text: str) -> str:
    """Return the server that a text names: a host with its port, or a URL.

    Raises:
        UsageError: The text is neither.
    """
    try:
        parts = urlsplit(text if "//" in text else f"//{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not _HOST.fullmatch(host):
        raise UsageError(f"{text[:80]!r} is not a server", remedy="name its host: esper models allow api.anthropic.com")
    shown = f"[{host}]" if ":" in host else host
    return shown if port is None else f"{shown}:{port}"


def agree(home: Path, host: str, by: str, *, is_agreed: bool = True) -> Consent:
    """Record a user's decision, allowed or not.

    Raises:
        UsageError: The text does not name a server.
    """
    host = host_of(host)
    said = Consent(host, by, timestamp(time.time_ns() // 1_000_000), is_agreed)
    _keep(home, (*(consent for consent in consents(home) if consent.host != host), said))
    return said


def withdraw(home: Path, host: str) -> bool:
    """Remove a recorded decision, and return whether there was one."""
    host = host_of(host)
    known = consents(home)
    left = tuple(each for each in known if each.host != host)
    if len(left) < len(known):
        _keep(home, left)
    return len(left) < len(known)


def _keep(home: Path, said: tuple[Consent, ...]) -> None:
    home.mkdir(parents=True, exist_ok=True)
    write_whole(home / _FILE, json.dumps([asdict(each) for each in said], indent=1).encode())
