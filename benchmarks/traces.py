"""Family and line of explained stack traces: traces of faulty programs, and traces quoted from issue threads.

`traces/programs/` holds small programs with one fault each, written before the error families were read;
`traces/programs.toml` names for each the right families and lines; `traces/output/` is what the programs printed.
`traces/quoted.toml` holds traces that users posted, with their pages. NOTES.md there has the figures of the first run.

python benchmarks/traces.py [--collect] [--misses] [NAME...]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.errors import UsageError
from esper_agents.traces.explain import explain_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.traces.explain import TraceExplanation

_FOLDER = Path(__file__).with_name("traces")
_PRINTED_ROOT = "/home/user/project"
_PRINTED_PACKAGES = f"/home/user/venv/lib/python{sys.version_info.major}.{sys.version_info.minor}"
_LIMIT_S = 180
_MOST = 40_000
_ENTRY = ("save_and_eval.py", "train.py", "run.py", "main.py")


def main() -> int:
    """Explain the stored traces and print the shares; with `--collect`, run the programs first."""
    parser = argparse.ArgumentParser(description="Measure the explanations of stack traces.")
    parser.add_argument("names", nargs="*", help="programs; all without a name")
    parser.add_argument("--collect", action="store_true", help="run the programs and store what they print")
    parser.add_argument("--misses", action="store_true", help="print the explanations that are wrong")
    asked = parser.parse_args()
    programs = tomllib.loads((_FOLDER / "programs.toml").read_text())["program"]
    chosen = [program for program in programs if not asked.names or program["name"] in asked.names]
    if asked.collect:
        for each in chosen:
            print(f"{each['name']:24} exit code {_collect(each['name'], each.get('entry', ''))}", flush=True)
        return 0
    for number in sorted({each.get("set", 1) for each in chosen}):
        part = [each for each in chosen if each.get("set", 1) == number]
        _report_programs(part, number, shows_misses=asked.misses)
    if not asked.names:
        _report_quoted(tomllib.loads((_FOLDER / "quoted.toml").read_text())["trace"], shows_misses=asked.misses)
    return 0


def _collect(name: str, entry: str) -> int:
    """Run a program in a copy of its folder, and store its output with a neutral path.

    Args:
        name: The program.
        entry: File to run; empty for the one that its name or the order of the files gives.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        shutil.copytree(_FOLDER / "programs" / name, root, ignore=shutil.ignore_patterns("__pycache__"))
        entry = entry or next(
            (each for each in _ENTRY if (root / each).is_file()), next(iter(sorted(root.glob("*.py")))).name
        )
        runner = ["-m", "pytest", "-q"] if entry.startswith("test_") else []
        process = subprocess.Popen(
            [sys.executable, *runner, str(root / entry)],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        try:
            data, _ = process.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            data, _ = process.communicate()
    text = data.decode("utf-8", "replace").replace(str(root), _PRINTED_ROOT)
    for folder in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        text = text.replace(folder, f"{_PRINTED_PACKAGES}/site-packages")
    text = text.replace(sys.prefix, "/home/user/venv").replace(sys.base_prefix, "/usr")
    (_FOLDER / "output").mkdir(exist_ok=True)
    (_FOLDER / "output" / f"{name}.txt").write_text(text[:_MOST])
    return process.returncode


def _report_programs(programs: Sequence[dict[str, Any]], part: int, *, shows_misses: bool) -> None:
    families = lines = first = 0
    for program in programs:
        name = program["name"]
        text = (_FOLDER / "output" / f"{name}.txt").read_text()
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(_FOLDER / "programs" / name, folder, dirs_exist_ok=True)
            explained = _explain(text, Path(folder))
        is_family = explained is not None and explained.family in program["family"]
        is_first = explained is not None and str(explained.location) in program["lines"]
        is_line = is_first or any(line in _lines_of(explained) for line in program["lines"])
        families, lines, first = families + is_family, lines + is_line, first + is_first
        if shows_misses and not (is_family and is_line):
            print(f"--- {name}: expected {program['family']} at {program['lines']}")
            _print(explained)
    number = len(programs)
    print(
        f"programs, set {part}: {number}; family right {families} ({families / number:.0%}); right line named {lines} "
        f"({lines / number:.0%}), as the place of the answer {first} ({first / number:.0%})"
    )


def _report_quoted(traces: Sequence[dict[str, str]], *, shows_misses: bool) -> None:
    families = frames = 0
    framed = [trace for trace in traces if trace["frame"]]
    with tempfile.TemporaryDirectory() as folder:
        for trace in traces:
            explained = _explain(trace["text"], Path(folder))
            is_family = explained is not None and explained.family == trace["family"]
            shown = next(iter(explained.frames), "").replace("\\", "/") if explained else ""
            is_frame = bool(trace["frame"]) and re.search(rf"{re.escape(trace['frame'])}(?!\d)", shown) is not None
            families, frames = families + is_family, frames + is_frame
            if shows_misses and not (is_family and (is_frame or not trace["frame"])):
                print(f"--- {trace['url']}: expected {trace['family']} at {trace['frame'] or 'no frame'}")
                _print(explained)
    print(
        f"quoted: {len(traces)}; family right {families} ({families / len(traces):.0%}); innermost frame of the "
        f"user's code found {frames} of {len(framed)} ({frames / len(framed):.0%})"
    )


def _explain(text: str, root: Path) -> TraceExplanation | None:
    try:
        return explain_text(text, root)
    except UsageError:
        return None


def _lines_of(explained: TraceExplanation | None) -> set[str]:
    """Return the lines that the answer and its fix name."""
    if explained is None:
        return set()
    return set(re.findall(r"[\w./-]+\.(?:py|ya?ml|json):\d+", f"{explained.answer} {explained.fix}"))


def _print(explained: TraceExplanation | None) -> None:
    if explained is None:
        print("    nothing found")
        return
    print(f"    {explained.trace.headline[:160]!r}")
    print(f"    {explained.family}/{explained.cause}: {explained.answer} | {explained.fix}")
    for alternative in explained.alternatives:
        print(f"    other: {alternative}")


if __name__ == "__main__":
    sys.exit(main())
