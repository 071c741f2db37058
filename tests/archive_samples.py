"""Certificates in an archive, for the tests of what finds them."""

from __future__ import annotations

from dataclasses import replace

from certificate_samples import certificate, claim, evidence, finding, source

from esper_agents.archive import store as archive
from esper_agents.certificates.log_entry import sign_and_log
from esper_agents.certificates.statement import normal, statement
from esper_agents.domain.finding import Location
from esper_agents.domain.project import GitRevision, Project
from esper_agents.domain.session import Submission
from esper_agents.domain.status import QuestionType
from esper_agents.domain.task import Task
from esper_agents.storage import sessions

PROJECT = Project("/somewhere/toy", "toy", "toy-0123456789ab", is_git=False)
OTHER = Project("/elsewhere/other", "other", "other-ba9876543210", is_git=False)


def time_of(number: int) -> str:
    """Return the time of a certificate: one a day from the first of January on."""
    return f"2026-{1 + number // 28 % 12:02d}-{1 + number % 28:02d}T09:30:00.000Z"


def identifier(number: int) -> str:
    """Return an identifier whose end is spread like that of a real one."""
    return f"crt_{number:012x}{(number * 2654435761 + 97) % 2**80:020x}"


def found(number: int, rule: str, path: str, line: int, *said: str):
    """Return a finding, with a message and a line of source where they are given."""
    message = said[0] if said else "the loss keeps its graph"
    excerpt = said[1] if len(said) > 1 else message
    place = Location(path, line, 1, line)
    return replace(finding(number), claim=replace(claim(), rule=rule, location=place, message=message, excerpt=excerpt))


def made(number: int, *, paths=("train.py",), commit="", **changes):
    """Return a certificate with a number of its own."""
    changes.setdefault("evidence", (evidence(),))
    return normal(
        certificate(
            **{
                "id": identifier(number),
                "issued_at": time_of(number),
                "examined": tuple(source(path) for path in paths),
                "revision": GitRevision(commit or "1" * 40, "2" * 40, "main", "", is_git=True, dirty=()),
            }
            | changes
        )
    )


class Archive:
    """A store with certificates in it."""

    def __init__(self, store):
        self.store = store
        self.key = PROJECT.key
        self.numbers = 0

    def add(self, issued, *, project=PROJECT, logged=False) -> str:
        """Archive a certificate and return its identifier."""
        revision = GitRevision("", "", "", "", is_git=False, dirty=())
        task = Submission(Task("review this", (), QuestionType.APPROVAL, "review"), "toy", revision, {}, "somebody")
        issued = replace(issued, session=sessions.create(self.store, project, task).session)
        data = statement(issued)
        self.numbers += 1
        with self.store.writing() as transaction:
            archive.add(transaction, project.key, issued, data)
            if logged:
                sign_and_log(transaction, project.key, issued.id, data)
        return issued.id

    def fill(self, *certificates, **options) -> list[str]:
        """Archive certificates in order and return their identifiers, newest first."""
        return [self.add(each, **options) for each in certificates][::-1]

    def listed(self, **options) -> list[str]:
        """Return the identifiers of a listing."""
        return [each.id for each in archive.listing(self.store, self.key, **options)]
