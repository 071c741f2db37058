"""What the log costs at a million entries: a full audit, a proof, a durable issue, and 32 processes that write at once.

The log is filled in bulk and signed; everything that is measured goes the way the program goes. The audit runs in a
process of its own, so that its memory is its own. Writers are forked, and none pauses between two issues.

    python benchmarks/log.py [--entries 1000000] [--writers 32] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL

from esper_agents.certificates.log import merkle, pins, transparency_log
from esper_agents.certificates.log.audit_log import audit_log
from esper_agents.certificates.log.block_tree import BLOCK, BlockTree
from esper_agents.certificates.log.note import Checkpoint, signed_checkpoint
from esper_agents.certificates.log.transparency_log import Record
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.domain.notice import EntryKind
from esper_agents.errors import EsperError
from esper_agents.storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROJECT, LOG = "benchmark-0123456789ab", 2
AT = "2026-01-31T09:30:00.000Z"
# As large as the statement of a certificate with 20 findings.
STATEMENT = b'{"predicate":{"reason":"' + b"x" * 18_000 + b'"}}'
PROOFS, ISSUES, ISSUES_EACH = 2_000, 200, 20
AUDIT_S, AUDIT_MB, PROOF_MS, ISSUE_MS, WAIT_S = 5.0, 200.0, 1.0, 25.0, 1.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where one run keeps its things.

    Attributes:
        folder: All of it.
    """

    folder: Path

    @property
    def home(self) -> Path:
        """The home, with the key and the pin."""
        return self.folder / "home"

    def open(self) -> Store:
        """Open the database."""
        return Store(URL.create("sqlite", database=str(self.folder / "esper.db")))


def fill(place: Place, entries: int) -> None:
    """Fill a log in bulk, as many certificates as entries, and sign and pin its head."""
    place.open().close()
    key, origin = signing_key(place.home), "urn:uuid:00000000-0000-4000-8000-000000000000"
    connection = sqlite3.connect(place.folder / "esper.db")
    for pragma in ("journal_mode=OFF", "synchronous=OFF", "foreign_keys=OFF", "cache_size=-200000"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("INSERT INTO project VALUES (?, '/', 'benchmark', ?, ?)", (PROJECT, AT, LOG))
    connection.execute("INSERT INTO log VALUES (?, ?, ?)", (LOG, origin, AT))
    tree = BlockTree()
    for first in range(0, entries, BLOCK):
        numbers = range(first, min(first + BLOCK, entries))
        leaves = [merkle.leaf_hash(b"%d" % number) for number in numbers]
        connection.executemany(
            "INSERT INTO certificate (position, id, session_id, project_key, issued_at, agent, kind, status, ceiling,"
            " descriptor, component, request, revision, view_name, sha256, statement) VALUES (?, ?, 'ses', ?, ?,"
            " 'agent', 'approval', 'APPROVED', 'APPROVED', 'code_review', 'toy', 'review', '', ?, '', x'')",
            ((number + 1, f"crt_{number:032x}", PROJECT, AT, f"view_{number}.md") for number in numbers),
        )
        connection.executemany(
            "INSERT INTO log_entry (log_id, idx, record_id, kind, project_key, about, at, key_id, signature, leaf_hash,"
            " statement) VALUES (?, ?, ?, 'certificate', ?, ?, ?, ?, ?, ?, x'')",
            (
                (LOG, each, f"crt_{each:032x}", PROJECT, f"crt_{each:032x}", AT, key.key_id, bytes(64), leaf)
                for each, leaf in zip(numbers, leaves, strict=True)
            ),
        )
        nodes = [(LOG, 0, each, leaf) for each, leaf in zip(numbers, leaves, strict=True)]
        for run in tree.add(leaves):
            nodes += [(LOG, run.level, each, found) for each, found in enumerate(run.hashes, run.first)]
        connection.executemany("INSERT INTO log_node (log_id, level, idx, hash) VALUES (?, ?, ?, ?)", nodes)
    note = signed_checkpoint(Checkpoint(origin, entries, merkle.root(entries, tree.read)), key)
    connection.execute("INSERT INTO log_checkpoint VALUES (?, ?, ?, ?)", (LOG, entries, note, AT))
    connection.commit()
    connection.close()
    pins.accept(place.home, str(place.folder / "esper.db"), PROJECT, note)


def audit(place: Place) -> dict[str, Any]:
    """Audit the log here, and return what it took."""
    store, key = place.open(), signing_key(place.home)
    began, cpu = time.perf_counter(), time.process_time()
    found = audit_log(store, place.home, PROJECT, [key.public_key])
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    # Not getrusage: what it says begins with the memory of the process that started this one.
    peak = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024  # type: ignore[index]
    return {"audit_s": took, "audit_cpu_s": cpu, "audit_peak_mb": peak, "faults": len(found.faults), "size": found.size}


def audit_elsewhere(place: Place) -> dict[str, Any]:
    """Audit the log in a process of its own."""
    command = [sys.executable, __file__, "--audit", str(place.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def proofs(place: Place, entries: int) -> list[float]:
    """Return how many milliseconds each proof of a random certificate took."""
    store, chance, times = place.open(), random.Random(5), []  # noqa: S311 - places, no secrets
    with store.reading() as connection:
        for _ in range(PROOFS):
            wanted = f"crt_{chance.randrange(entries):032x}"
            began = time.perf_counter()
            transparency_log.proof(connection, LOG, wanted)
            times.append((time.perf_counter() - began) * 1000)
    store.close()
    return times


def issue(place: Place, store: Store, number: int) -> None:
    """Enter one record, durably, and pin it."""
    record = Record(f"ntc_{number:032x}", EntryKind.NOTICE, "", STATEMENT)
    with store.writing() as transaction:
        pins.check_before_append(transaction.connection, place.home, store.where, PROJECT)
        transparency_log.append(transaction, signing_key(place.home), PROJECT, record)
    with store.reading() as connection:
        pins.renew(connection, place.home, store.where, PROJECT)


def timed_issues(place: Place, numbers: Sequence[int]) -> tuple[list[float], list[str]]:
    """Return how many seconds each issue took, with the wait for its turn, and what failed."""
    store, times, errors = place.open(), [], []
    for number in numbers:
        began = time.perf_counter()
        try:
            issue(place, store, number)
        except EsperError as error:
            errors.append(error.problem)
        times.append(time.perf_counter() - began)
    store.close()
    return times, errors


def at_once(place: Place, writers: int) -> tuple[list[float], list[str]]:
    """Return what `timed_issues` does, of processes that write at the same time."""
    start = time.monotonic() + 0.1 * writers
    for writer in range(writers):
        if not os.fork():
            try:
                time.sleep(max(0.0, start - time.monotonic()))
                numbers = range(10**6 * (writer + 1), 10**6 * (writer + 1) + ISSUES_EACH)
                (place.folder / f"writer-{writer}").write_text(json.dumps(timed_issues(place, numbers)))
            finally:
                os._exit(0)
    for _ in range(writers):
        os.wait()
    said = [json.loads((place.folder / f"writer-{each}").read_text()) for each in range(writers)]
    return [took for times, _ in said for took in times], [error for _, errors in said for error in errors]


def synced(place: Place) -> Iterator[float]:
    """Yield how many milliseconds the disk takes to keep a page, again and again."""
    with (place.folder / "synced").open("wb", buffering=0) as file:
        while True:
            began = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            yield (time.perf_counter() - began) * 1000


def measure(place: Place, entries: int, writers: int) -> dict[str, Any]:
    """Fill a log and return everything that was measured."""
    began = time.perf_counter()
    fill(place, entries)
    measured: dict[str, Any] = {"entries": entries, "fill_s": time.perf_counter() - began}
    measured |= audit_elsewhere(place)
    proving = proofs(place, entries)
    measured |= {"proof_p50_ms": statistics.median(proving), "proof_p95_ms": statistics.quantiles(proving, n=20)[-1]}
    alone, errors = timed_issues(place, range(1, ISSUES + 1))
    measured["issue_p50_ms"] = statistics.median(alone) * 1000
    together, more_errors = at_once(place, writers)
    measured |= {"writers": writers, "wait_p50_s": statistics.median(together), "wait_worst_s": max(together)}
    after = audit_elsewhere(place)
    expected = entries + ISSUES + writers * ISSUES_EACH
    measured |= {
        "errors": errors + more_errors,
        "faults": measured["faults"] + after["faults"],
        "lost": expected - after["size"],
        "fdatasync_p50_ms": statistics.median(islice(synced(place), 200)),
    }
    return measured


def main() -> None:
    """Read the command line, measure, print, and exit with 1 where a figure is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--writers", type=int, default=32)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--audit", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.audit:
        print(json.dumps(audit(Place(given.audit))))
        return
    folder = Path(tempfile.mkdtemp(prefix="esper-log-"))
    try:
        measured = measure(Place(folder), given.entries, given.writers)
    finally:
        shutil.rmtree(folder)
    limits = {
        "audit_s": AUDIT_S,
        "audit_peak_mb": AUDIT_MB,
        "proof_p50_ms": PROOF_MS,
        "issue_p50_ms": ISSUE_MS,
        "wait_worst_s": WAIT_S,
    }
    missed = [name for name, limit in limits.items() if measured[name] >= limit]
    missed += [name for name in ("errors", "faults", "lost") if measured[name]]
    if given.json:
        print(json.dumps(measured | {"missed": missed}))
    else:
        for name, found in measured.items():
            shown = f"{found:.3f}" if isinstance(found, float) else found
            aim = f"(under {limits[name]:g}: {'MISSED' if name in missed else 'met'})" if name in limits else ""
            print(f"{name:18} {shown} {aim}".rstrip())
        print("MISSED: " + ", ".join(missed) if missed else "all met")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
