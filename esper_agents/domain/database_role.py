"""Roles of the users of a shared database."""

from __future__ import annotations

from enum import StrEnum


class DatabaseRole(StrEnum):
    """Role of a user of a shared database."""

    READER = "reader"
    WORKER = "worker"
    OWNER = "owner"
