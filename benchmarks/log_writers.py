"""How many certificates are issued in a second by 1, 8 and 32 processes, into one log and into one of each project.

Each issue is the transaction of the program: the pin is checked, the certificate archived with its index, signed,
entered in the log with a new checkpoint, and durable. Writers are forked, begin together and do not pause; each has a
session of its own. A project has a log of its own, so that writers of different projects do not wait for one another;
SQLite has one writer at a time anyhow.

    python benchmarks/log_writers.py [--database sqlite|postgresql|URL] [--issues 25] [--writers 1,8,32] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import databases
from sqlalchemy import URL, make_url

from esper_agents.certificates import archive
from esper_agents.certificates.entering import enter, enter_unlogged
from esper_agents.certificates.sealing.keys import signing_key
from esper_agents.certificates.statement import statement
from esper_agents.domain.project import Project, Revision
from esper_agents.domain.session import Submission
from esper_agents.domain.status import Kind
from esper_agents.domain.task import Task
from esper_agents.errors import EsperError
from esper_agents.storage import sessions
from esper_agents.storage.store import Store

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from certificate_samples import certificate  # type: ignore[import-not-found] # the samples of the tests

WRITERS = "1,8,32"
START_S = 0.15


def project_of(number: int) -> Project:
    """Return a project that has no folder."""
    return Project(f"/nowhere/{number}", "benchmark", f"benchmark-{number:012x}", is_git=False)


def session_of(store: Store, project: Project) -> str:
    """Return a session of a project for certificates to come from."""
    revision = Revision("", "", "", "", is_git=False, dirty=())
    submission = Submission(Task("review", (), Kind.APPROVAL, "review"), "benchmark", revision, {}, "benchmark")
    return sessions.create(store, project, submission).session


def issue(store: Store, project: Project, session: str, number: int) -> None:
    """Issue one certificate."""
    issued = replace(certificate(), id=f"crt_{number:032x}", session=session)
    data = statement(issued)
    with store.writing() as transaction:
        enter_unlogged(transaction, str(store.where), project.key)
        archive.add(transaction, project.key, issued, data)
        enter(transaction, project.key, issued.id, data)


def write(url: URL, project: Project, first: int, issues: int, start: float) -> dict[str, Any]:
    """Issue certificates from a moment on; return when the first began and the last ended, and what failed."""
    store, errors = Store(url), []
    session = session_of(store, project)
    time.sleep(max(0.0, start - time.monotonic()))
    began = time.monotonic()
    for number in range(first, first + issues):
        try:
            issue(store, project, session, number)
        except EsperError as error:
            errors.append(error.problem)
    ended = time.monotonic()
    store.close()
    return {"began": began, "ended": ended, "errors": errors}


def together(url: URL, folder: Path, writers: int, issues: int, *, run: int, is_shared: bool) -> dict[str, Any]:
    """Return what so many processes issue in a second, of one project or each of its own."""
    projects = [project_of(run * 1000 + (0 if is_shared else each)) for each in range(writers)]
    store = Store(url)
    for number, project in enumerate(dict.fromkeys(projects)):
        # The first certificate of a project begins its log.
        issue(store, project, session_of(store, project), run * 10**9 + number)
    store.close()
    start = time.monotonic() + START_S * writers
    for writer, project in enumerate(projects):
        if not os.fork():
            try:
                first = run * 10**9 + (writer + 1) * 10**6
                (folder / f"writer-{writer}").write_text(json.dumps(write(url, project, first, issues, start)))
            finally:
                os._exit(0)
    for _ in projects:
        os.wait()
    said = [json.loads((folder / f"writer-{each}").read_text()) for each in range(writers)]
    took = max(each["ended"] for each in said) - min(each["began"] for each in said)
    errors = [problem for each in said for problem in each["errors"]]
    return {"per_s": (writers * issues - len(errors)) / took, "errors": errors}


def main() -> None:
    """Read the command line, measure, print, and exit with 1 where an issue failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    databases.add_option(parser)
    parser.add_argument("--issues", type=int, default=25, help="certificates of each writer")
    parser.add_argument("--writers", default=WRITERS, help="how many processes, with commas between")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="esper-log-writers-"))
    os.environ["ESPER_HOME"] = str(folder / "home")
    signing_key(folder / "home")
    measured: dict[str, float] = {}
    errors: list[str] = []
    with databases.server_of(given.database) as server:
        databases.create(server, folder)
        try:
            there = databases.database_of(server, folder)
            url = make_url(there) if there else URL.create("sqlite", database=str(folder / "esper.db"))
            cases = [(int(writers), is_shared) for writers in given.writers.split(",") for is_shared in (True, False)]
            for run, (writers, is_shared) in enumerate(cases, start=1):
                found = together(url, folder, writers, given.issues, run=run, is_shared=is_shared)
                name = f"{writers} writers, {'one project' if is_shared else 'a project each'}"
                measured[name] = found["per_s"]
                errors += found["errors"]
        finally:
            databases.drop(server, folder)
    shutil.rmtree(folder)
    if given.json:
        print(json.dumps({"certificates_per_s": measured, "errors": errors}))
    else:
        for name, per_s in measured.items():
            print(f"{name:28} {per_s:8.1f} certificates per second")
        print(f"errors: {len(errors)}" + "".join(f"\n  {each}" for each in sorted(set(errors))))
    sys.exit(bool(errors))


if __name__ == "__main__":
    main()
