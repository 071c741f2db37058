"""Formats of a public key."""

from __future__ import annotations

from enum import StrEnum


class KeyFormat(StrEnum):
    """Format of a public key."""

    PEM = "pem"
    SSH = "ssh"
    NOTE = "note"
    WITNESS = "witness"
    ALLOWED_SIGNERS = "allowed-signers"
