"""Whether what a model sees reaches the certificate, and what it invents does not.

Each behaviour is a script of a model: it reads, then concludes with findings worded as strong models word them, through
the real SDK with a real server on loopback. A true finding must stand under FINDINGS in the right file within the right
lines. A false one must not stand as confirmed and must not make the verdict worse than undecided. No script may raise
the status above that of the playbook alone. A sloppy script (malformed calls, unknown tools, words) loses no finding.

- `written_before.toml`: at the project in `behaviours/project`, written before the checks that they try.
- `fresh.toml`, `later.toml`: at files of published packages that were not looked at before, written afterwards by
  others and run once. The packages are downloaded from PyPI into a folder that `--cache` names.

    python benchmarks/behaviours.py [--set written_before|fresh|later] [--only TEXT] [--cache DIR] [--json]

It exits with 1 where a figure is missed: 97 % of the true findings in place, none lost, none of the false ones
confirmed or decisive, no status raised.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.api import open_project
from esper_agents.certificates.policy.verdict_ceiling import verdict_levels
from esper_agents.domain.finding import Standing
from esper_agents.domain.status import Stance
from esper_agents.reasoning.action_schema import RULE
from esper_agents.testing.messages import MessagesServer
from esper_agents.testing.script import Say, ToolUseBlock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from esper_agents.domain.certificate import Certificate
    from esper_agents.testing.script import Answer, Request

HERE = Path(__file__).resolve().parent / "behaviours"
SETS = ("written_before", "fresh", "later")
AGENT, REQUEST = "benchmark-reader", "review this"
IN_PLACE = 0.97
_DEFINITION = f"""---
name: {AGENT}
description: Reads what a benchmark puts before it.
tools:
  - read-file
  - search-code
  - find-files
  - static-review
---
You read.
"""
_EVIDENCE = re.compile(r'\\"evidence\\": \\"(e\d+|ev_[0-9a-f]{32})\\"')
_DEFAULTS = {
    "severity": "warning",
    "category": "correctness",
    "remedy": "Change it.",
    "confidence": "High",
    "basis": "read in the code",
}
_DECISIVE = frozenset((Stance.AGAINST, Stance.REJECTED, Stance.EMERGENCY))


@dataclass
class Result:
    """What became of one behaviour.

    Attributes:
        name: Its name.
        kind: `true`, `false` or `robust`.
        faults: What should not be, in words.
        said: Number of findings in the script.
        in_place: Number of them under FINDINGS in the right file within the right lines.
        lost: Number of them that are not under FINDINGS at all.
        confirmed: Number of false findings that stand as confirmed.
        is_decisive: Whether a false one made the verdict worse than undecided.
        is_raised: Whether the status is better than the playbook's.
        requests: Number of requests to the model.
    """

    name: str
    kind: str
    faults: list[str] = field(default_factory=list)
    said: int = 0
    in_place: int = 0
    lost: int = 0
    confirmed: int = 0
    is_decisive: bool = False
    is_raised: bool = False
    requests: int = 0


class Script:
    """A model that reads, says what a behaviour has it say, and says it again where it is refused."""

    def __init__(self, behaviour: Mapping[str, Any], default_read: str) -> None:
        """Prepare the turns before the conclusion."""
        self._behaviour = behaviour
        reads = behaviour.get("reads", [["read-file", {"path": default_read}]])
        self._turns: list[Answer] = [tuple(ToolUseBlock(name, given) for name, given in reads)]
        self._turns += [ToolUseBlock(name, {"path": "train.py"}) for name in behaviour.get("unknown", ())]
        self._turns += [ToolUseBlock("conclude", text) for text in behaviour.get("malformed", ())]
        self._turns += [Say("I think that this needs a closer look.")] * behaviour.get("talks", 0)
        self._evidence: list[str] = []

    def __call__(self, request: Request) -> Answer:
        """Return the next message."""
        seen = _EVIDENCE.findall(json.dumps(request.body["messages"]))
        self._evidence = list(dict.fromkeys(seen))
        turn = sum(each["role"] == "assistant" for each in request.body["messages"])
        return self._turns[turn] if turn < len(self._turns) else ToolUseBlock("conclude", self._conclusion())

    def _conclusion(self) -> dict[str, Any]:
        known = self._evidence[-1:] or [""]
        findings = []
        for said in self._behaviour["findings"]:
            evidence = [each if each != "CUT" else known[0][:-1] for each in said.get("evidence", known)]
            findings.append({**_DEFAULTS, **said, "evidence": evidence})
        return {"summary": "Reviewed.", **self._behaviour.get("conclude", {}), "findings": findings}


async def run(folder: Path, paths: Sequence[str], script: Script | None) -> Any:
    """Run a session, by the script or by the playbook alone; return its certificate, requests and tool calls."""
    agents = folder.parent / "agents"
    agents.mkdir(exist_ok=True)
    (agents / f"{AGENT}.md").write_text(_DEFINITION)
    with MessagesServer(script or (lambda _: Say("not asked"))) as server:
        os.environ |= server.environment
        async with open_project(folder, agents=[agents]) as project:
            project.models.allow(project.services.server.host)
            agent = AGENT if script else "pytorch-code-reviewer"
            task = project.tasks.create(REQUEST, [folder / path for path in paths], agent=agent)
            if script:
                task = project.models.with_reasoner(task, "claude")
            outcome = await (await project.tasks.submit(task)).run()
            certificate = await project.certificates.read(outcome.certificate.id) if outcome.certificate else None
        return certificate, len(server.requests)


def judge(behaviour: Mapping[str, Any], came: Certificate | None, baseline: Certificate, requests: int) -> Result:
    """Return what became of a behaviour."""
    result = Result(behaviour["name"], behaviour["kind"], requests=requests)
    if came is None:
        result.faults.append("no certificate")
        result.lost = len(behaviour["findings"])
        return result
    levels = verdict_levels(came.verdict.kind)
    found = {finding.claim.name: finding for finding in came.findings if finding.claim.rule == RULE}
    well_formed = [
        each for each in behaviour["findings"] if isinstance(each.get("message", each.get("description")), str)
    ]
    result.said = len(well_formed)
    stance, before = came.verdict.stance, baseline.verdict.stance
    result.is_raised = levels.index(stance) < levels.index(before)
    result.is_decisive = stance in _DECISIVE and before not in _DECISIVE
    result.confirmed = sum(each.standing in {Standing.RECORDED, Standing.CONFIRMED} for each in found.values())
    for said in well_formed:
        made = found.get(said["name"])
        if made is None:
            result.lost += 1
            result.faults.append(f"{said['name']} is lost")
        elif behaviour["kind"] == "false":
            if behaviour["mark"] not in {"none", made.standing.value}:
                result.faults.append(f"{said['name']} is {made.standing}: {'; '.join(made.checks)}")
        elif _is_in_place(behaviour, made.claim.location):
            result.in_place += 1
        else:
            result.faults.append(f"{said['name']} stands at {made.claim.location}: {'; '.join(made.checks)}")
    if result.is_raised or result.is_decisive:
        result.faults.append(f"the verdict is {stance}, the playbook's {before}")
    expected = behaviour.get("expect", {})
    if "tools" in expected and sum(each.tool == "read-file" for each in came.evidence) != expected["tools"]:
        result.faults.append("not all good calls ran")
    return result


def _is_in_place(behaviour: Mapping[str, Any], location: Any) -> bool:
    first, last = behaviour["lines"]
    is_there: bool = location.path == behaviour["file"]
    return is_there and first <= location.line <= max(location.line, location.end_line) <= last


def make_project(folder: Path, behaviour: Mapping[str, Any], cache: Path) -> list[str]:
    """Write the project of a behaviour, and return the paths of its task."""
    shutil.rmtree(folder, ignore_errors=True)
    if source := behaviour.get("package"):
        folder.mkdir(parents=True)
        for path in behaviour["files"]:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(_of_package(source, path, cache))
        paths = [behaviour["files"][0]]
    else:
        shutil.copytree(HERE / "project", folder)
        paths = ["."]
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    return paths


def _of_package(source: str, path: str, cache: Path) -> bytes:
    """Return a file of a wheel such as `name==1.0`, downloaded once."""
    import zipfile

    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / source.replace("==", "-")
    if not folder.is_dir():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", source]
        subprocess.run([*command, "-d", str(folder)], check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        return wheel.read(path)


def measure(behaviours: Sequence[Mapping[str, Any]], cache: Path) -> list[Result]:
    """Run behaviours one after the other."""
    results, baselines = [], {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"ESPER_HOME": f"{folder}/home", "GIT_CONFIG_GLOBAL": os.devnull}
        for number, behaviour in enumerate(behaviours):
            project = Path(folder, f"p{number}", "project")
            paths = make_project(project, behaviour, cache)
            key = json.dumps([behaviour.get("package"), behaviour.get("files")])
            if key not in baselines:
                baselines[key], _ = asyncio.run(run(project, paths, None))
            first = behaviour.get("file", "train.py" if "package" not in behaviour else behaviour["files"][0])
            came, requests = asyncio.run(run(project, paths, Script(behaviour, first)))
            results.append(judge(behaviour, came, baselines[key], requests))
            shown = results[-1]
            print(f"{'ok  ' if not shown.faults else 'MISS'} {shown.kind:6} {requests} {shown.name}", file=sys.stderr)
            for fault in shown.faults:
                print(f"       {fault}", file=sys.stderr)
    return results


def figures(results: Sequence[Result]) -> dict[str, Any]:
    """Return the figures of some behaviours."""
    right = [result for result in results if result.kind != "false"]
    false = [result for result in results if result.kind == "false"]
    said = sum(each.said for each in right)
    return {
        "behaviours": len(results),
        "true_findings": said,
        "in_place": sum(each.in_place for each in right),
        "in_place_share": round(sum(each.in_place for each in right) / said, 4) if said else 1.0,
        "lost": sum(result.lost for result in results),
        "false_findings": sum(each.said for each in false),
        "false_confirmed": sum(each.confirmed for each in false),
        "false_decisive": sum(each.is_decisive for each in false),
        "status_raised": sum(result.is_raised for result in results),
        "other_faults": sum(bool(result.faults) for result in results),
    }


def main() -> int:
    """Run the sets and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=SETS, action="append")
    parser.add_argument("--only", default="")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir(), "esper-behaviours"))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    is_missed = False
    told: dict[str, Any] = {}
    for name in given.set or [each for each in SETS if (HERE / f"{each}.toml").is_file()]:
        behaviours = tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))["behaviour"]
        results = measure([behaviour for behaviour in behaviours if given.only in behaviour["name"]], given.cache)
        found = figures(results)
        told[name] = {"figures": found, "results": [asdict(result) for result in results]}
        is_missed |= found["in_place_share"] < IN_PLACE
        is_missed |= any(found[each] for each in ("lost", "false_confirmed", "false_decisive", "status_raised"))
        if not given.json:
            print(name, json.dumps(found))
    if given.json:
        print(json.dumps(told, indent=2))
    return int(is_missed)


if __name__ == "__main__":
    sys.exit(main())
