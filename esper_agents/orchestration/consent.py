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
    """A person's word on whether source of a project may go to a server.

    Attributes:
        host: The server, as the address of a request names it.
        by: Who said so.
        at: When, as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
        is_agreed: Whether it may.
    """

    host: str
    by: str
    at: str
    is_agreed: bool = True


class ConsentError(UsageError):
    """Source would leave this machine, and nobody has agreed to that."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"source of this project would go to {host}, and nobody has agreed to that",
            remedy=f"agree to it with `esper models agree {host}`, or work without: --reasoner playbook",
        )


def consents(home: Path) -> tuple[Consent, ...]:
    """Return what people have said, by server. What cannot be read agrees to nothing.

    Args:
        home: Where the program keeps the project's things.
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
    """Return whether a person has agreed that source goes to a server."""
    return any(each.host == host and each.is_agreed for each in consents(home))


def host_of(text: str) -> str:
    """Return the server that a person means: a host with its port, or the address of one.

    Raises:
        UsageError: It is neither.
    """
    try:
        parts = urlsplit(text if "//" in text else f"//{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not _HOST.fullmatch(host):
        raise UsageError(f"{text[:80]!r} is no server", remedy="name its host: esper models agree api.anthropic.com")
    shown = f"[{host}]" if ":" in host else host
    return shown if port is None else f"{shown}:{port}"


def agree(home: Path, host: str, by: str, *, is_agreed: bool = True) -> Consent:
    """Keep a person's word, whether it is yes or no.

    Raises:
        UsageError: It names no server.
    """
    host = host_of(host)
    said = Consent(host, by, timestamp(time.time_ns() // 1_000_000), is_agreed)
    _keep(home, (*(each for each in consents(home) if each.host != host), said))
    return said


def withdraw(home: Path, host: str) -> bool:
    """Take a person's word back, and return whether there was one."""
    host = host_of(host)
    known = consents(home)
    left = tuple(each for each in known if each.host != host)
    if len(left) < len(known):
        _keep(home, left)
    return len(left) < len(known)


def _keep(home: Path, said: tuple[Consent, ...]) -> None:
    home.mkdir(parents=True, exist_ok=True)
    write_whole(home / _FILE, json.dumps([asdict(each) for each in said], indent=1).encode())
