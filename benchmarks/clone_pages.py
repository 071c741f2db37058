"""How long a clone with many published certificates takes: first index, gate, verification, the page of one file.

A colleague's certificates are written as issuing publishes them: envelope, view and proof of one log, each with 20
findings in the three files that it read. Every certificate has bytes of its own, so that nothing is read from a cache
that a real clone would not have. CPU time of the command and its children counts, so that other work on the machine
does not fall on it; wall time stands beside it. Every figure is printed with its aim, and with MISSED where it is not
met; the exit code is then 1.

    python benchmarks/clone_pages.py [--envelopes 10000] [--draws 20] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import archive as bulk
import httpx
from certificate_samples import (  # type: ignore[import-not-found] # `archive` adds the folder of the tests
    certificate,
    claim,
    evidence,
    finding,
    ran_tests,
    source,
)

import certificates as published
import web
from esper_agents.certificates.signing.public_keys import as_ssh
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.statement import statement
from esper_agents.certificates.views.markdown import render_markdown
from esper_agents.domain.project import GitRevision
from esper_agents.domain.status import QuestionType
from esper_agents.domain.task import Task
from esper_agents.storage.store import timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from esper_agents.domain.certificate import Certificate

PROGRAM = [sys.executable, "-c", "from esper_agents.cli.main import main; main()"]

FILES, READ, FINDINGS, LINES = 200, 3, 20, 120
# Seconds of CPU for 10,000 envelopes; a clone of another size has aims in proportion.
FIRST_LIST_S, FIRST_GATE_S, GATE_S, VERIFY_S = 60.0, 60.0, 6.0, 2.0
PAGE_MS = 100.0
GATE = ("gate", "--require", "CONDITIONALLY_APPROVED")


def make_clone(folder: Path, total: int) -> Path:
    """Return a clone with published certificates of a colleague, whose key the user trusts; filled once."""
    root, home = folder / "clone", folder / "colleague"
    if root.is_dir():
        return root
    texts = {f"src/part_{number:03}.py": text_of(number) for number in range(FILES)}
    for path, text in texts.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "first")):
        subprocess.run(
            ["git", "-C", root, "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments], check=True
        )
    head = subprocess.check_output(["git", "-C", root, "rev-parse", "HEAD"], text=True).strip()
    key = signing_key(home)
    records = [statement(certificate_of(number, texts, head)) for number in range(total)]
    target = root / "docs/ai/agents/pytorch-code-reviewer/certificates"
    target.mkdir(parents=True)
    for number, each in enumerate(published.publish(records, key)):
        name = target / f"review_{number:06}"
        name.with_suffix(".md").write_text(render_markdown(each.payload))
        name.with_suffix(".dsse.json").write_bytes(each.envelope)
        name.with_suffix(".tlog-proof").write_bytes(each.proof)
    owner = folder / "colleague.pub"
    owner.write_text(f"{as_ssh(key.public_key)} ann@example.org\n")
    return root


def text_of(number: int) -> str:
    """Return the source of a file."""
    return "".join(f"x_{line} = loss_{line}.item()  # {number}\n" for line in range(1, LINES + 1))


def certificate_of(number: int, texts: dict[str, str], commit: str) -> Certificate:
    """Return a certificate about three files, as different from others as those of a project are."""
    chance = random.Random(number)  # noqa: S311 - a design, not a secret
    read = chance.sample(sorted(texts), READ)
    files = tuple(source(path, texts[path]) for path in read)
    found = []
    for at in range(FINDINGS):
        path, line = chance.choice(read), chance.randint(1, LINES)
        place = replace(claim().location, path=path, line=line, end_line=line)
        excerpt = texts[path].splitlines()[line - 1]
        found.append(finding(at + 1, location=place, excerpt=excerpt, fingerprint=f"{chance.getrandbits(128):032x}"))
    request = f"review {', '.join(read)}"
    issued: Certificate = certificate(
        task=Task(request, tuple(read), QuestionType.APPROVAL, "review"),
        id=f"crt_{number:032x}",
        session=f"ses_{number:032x}",
        issued_at=timestamp(bulk.BEGAN_MS + number * 60_000),
        component=f"component_{chance.randrange(500)}",
        examined=files,
        findings=tuple(found),
        evidence=(evidence(examined=files, arguments={"paths": read}), ran_tests(examined=files)),
        revision=GitRevision(commit, "2" * 40, "main", "", is_git=True, dirty=()),
        summary=f"judgement {number}",
    )
    return issued


def run(root: Path, *arguments: str) -> tuple[float, float]:
    """Run a command in the clone, and return its CPU and wall time."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([*PROGRAM, *arguments], cwd=root, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # The certificates are authentic and current: anything else would measure another path.
    if done.returncode:
        sys.exit(f"{arguments}: {(done.stdout + done.stderr)[:1000]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - began


def measure(folder: Path, root: Path, total: int, draws: int) -> bool:
    """Time the commands and pages, and return whether all aims are met."""
    size, envelope = total / 10_000, "docs/ai/agents/pytorch-code-reviewer/certificates/review_000042.dsse.json"
    print(f"{total} envelopes, {FILES} files, load {os.getloadavg()[0]:.1f}, in s of CPU")
    is_met = True

    def timed(name: str, aim: float, *arguments: str) -> None:
        nonlocal is_met
        cpu, wall = run(root, *arguments)
        is_met &= cpu <= aim
        print(f"{name:44} {cpu:7.2f}  wall {wall:7.2f}  aim {aim:6.1f}{'' if cpu <= aim else '  MISSED'}", flush=True)

    for home in ("first", "second"):
        os.environ["ESPER_HOME"] = str(folder / home)
        run(root, "keys", "trust", str(folder / "colleague.pub"))
        if home == "first":
            timed("first list of a clone", FIRST_LIST_S * max(size, 0.1), "certificates", "list", "-n", "5")
            timed("list", 2.0, "certificates", "list", "-n", "5")
            timed("gate after it, first", FIRST_GATE_S * max(size, 0.1), *GATE)
        else:
            timed("first gate of a clone", FIRST_GATE_S * max(size, 0.1), *GATE)
        timed("gate again", GATE_S, *GATE)
        timed("gate of one file", VERIFY_S, *GATE, "src/part_007.py")
    timed("verification of one by its path", VERIFY_S, "certificates", "verify", envelope)
    return measure_pages(root, total, draws) and is_met


def measure_pages(root: Path, total: int, draws: int) -> bool:
    """Time the pages that verify many certificates, and return whether all aims are met."""
    process = subprocess.Popen([*PROGRAM, "serve", "--port", "0", "--project", root], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        start = process.stderr.readline().split()[-1]
        kinds: dict[str, Callable[[random.Random], str]] = {
            "certificates": lambda _: "/",
            "one certificate": lambda chance: f"/certificates/crt_{chance.randrange(total):032x}",
            "files": lambda _: "/files",
            "one file": lambda chance: f"/file?path=src/part_{chance.randrange(FILES):03}.py",
        }
        with httpx.Client(base_url=start.partition("/start")[0], timeout=web.PATIENCE_S) as client:
            client.get(start)
            met = [web.ask(client, process.pid, page, draws=draws, aim_ms=PAGE_MS) for page in kinds.items()]
        print(f"{'largest memory':40} {web.memory_mib(process.pid):8.0f} MiB")
    finally:
        process.terminate()
        process.communicate()
    return all(met)


def main() -> None:
    """Read the command line, measure, and exit with 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envelopes", type=int, default=10_000, help="how many published certificates")
    parser.add_argument("--draws", type=int, default=20, help="how often each page is asked for")
    parser.add_argument("--keep", default="", help="a folder to keep the clone in, for the next time")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="esper-clones-") as made:
        folder = Path(given.keep or made).absolute()
        root = make_clone(folder, given.envelopes)
        for home in ("first", "second"):
            subprocess.run(["rm", "-rf", folder / home], check=True)
        is_met = measure(folder, root, given.envelopes, given.draws)
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
