"""Checks one certificate, from the archive or from published files, against the tree at hand; writes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from esper_agents.certificates.check import Check, Outcome
from esper_agents.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from esper_agents.certificates.subjects import SubjectCheck
    from esper_agents.cli.exhibits import Exhibit
    from esper_agents.domain.certificate import Certificate

_VERDICT_CHECKS = frozenset(("policy", "ceiling", "verdict", "evidence"))


class Currency(StrEnum):
    """Whether a certificate still speaks of the tree at hand."""

    VALID = "valid"
    STALE = "stale"
    CANNOT_DECIDE = "cannot decide"


@dataclass(frozen=True, slots=True)
class Verified:
    """A certificate, checked.

    Attributes:
        certificate: What it says; None where the record is no certificate or not to be had.
        genuine: Whether the bytes and the views are what was issued.
        verdict: Whether its verdict follows from what it has on record.
        citations: Whether it cites files that were read, and says what they say.
        currency: Whether the files are still what they were.
        files: The files, looked at again.
        root: The tree that was compared with.
    """

    certificate: Certificate | None
    genuine: tuple[Check, ...]
    verdict: tuple[Check, ...]
    citations: tuple[Check, ...]
    currency: Currency
    files: tuple[SubjectCheck, ...]
    root: Path

    @property
    def exit_code(self) -> ExitCode:
        """What the command line exits with: not what it was, before not current, before undecided."""
        whole = outcome_of(*self.genuine, *self.verdict, *self.citations)
        if whole is Outcome.FAILS:
            return ExitCode.TAMPERED
        if self.currency is Currency.STALE:
            return ExitCode.NOT_CURRENT
        undecided = whole is Outcome.CANNOT_DECIDE or self.currency is Currency.CANNOT_DECIDE
        return ExitCode.UNDECIDED if undecided else ExitCode.DONE


def outcome_of(*checks: Check) -> Outcome:
    """Return how checks ended together; checks that were not made decide nothing."""
    outcomes = {each.outcome for each in checks}
    if Outcome.FAILS in outcomes:
        return Outcome.FAILS
    return Outcome.HOLDS if outcomes == {Outcome.HOLDS} else Outcome.CANNOT_DECIDE


def check(exhibit: Exhibit) -> Verified:
    """Return how the checks of an exhibit end."""
    from esper_agents.certificates.policy import policy_text
    from esper_agents.certificates.statement import parse
    from esper_agents.certificates.verify import verify_statement, verify_subjects

    if exhibit.data is None:
        return Verified(None, exhibit.known, (), (), Currency.CANNOT_DECIDE, (), exhibit.root)
    made = {each.name: each for each in verify_statement(exhibit.data, policy_text())}
    genuine = (*exhibit.known, made["record"], *_view_checks(exhibit, exhibit.data))
    if made["record"].outcome is not Outcome.HOLDS:
        return Verified(None, genuine, (), (), Currency.CANNOT_DECIDE, (), exhibit.root)
    certificate = parse(exhibit.data)
    files = verify_subjects(exhibit.data, exhibit.root)
    return Verified(
        certificate=certificate,
        genuine=genuine,
        verdict=tuple(each for name, each in made.items() if name in _VERDICT_CHECKS),
        citations=(made["citations"], *_misquoted(files)),
        currency=_currency(files, certificate.project, exhibit.root.name),
        files=files,
        root=exhibit.root,
    )


def _view_checks(exhibit: Exhibit, data: bytes) -> tuple[Check, ...]:
    from esper_agents.certificates.verify import verify_view

    return tuple(
        replace(each, detail=f"{exhibit.shown(path)}: {each.detail}")
        for path, page in exhibit.views
        for each in verify_view(data, page.decode("utf-8", "replace"))
        if each.name != "record"
    )


def _misquoted(files: Iterable[SubjectCheck]) -> tuple[Check, ...]:
    """Return the citations that a file contradicts although it is what it was: their excerpts were never in it."""
    from esper_agents.certificates.subjects import SubjectState

    return tuple(
        Check(each.name, Outcome.FAILS, f"{each.detail}, though the file is what it was")
        for file in files
        for each in file.citations
        if file.state is SubjectState.VALID and each.outcome is Outcome.FAILS
    )


def _currency(files: Iterable[SubjectCheck], project: str, tree: str) -> Currency:
    from esper_agents.certificates.subjects import SubjectState

    states = {each.state for each in files}
    if states == {SubjectState.MISSING} and tree != project:
        # Another project altogether: that nothing is found there says nothing of the files.
        return Currency.CANNOT_DECIDE
    if states & {SubjectState.STALE, SubjectState.MISSING}:
        return Currency.STALE
    return Currency.CANNOT_DECIDE if SubjectState.UNREADABLE in states else Currency.VALID
