"""Draws facts of all fact queries over packages in a folder, to be judged by hand, and tallies what was judged.

    python benchmarks/query_precision.py draw FOLDER SAMPLE.jsonl [--facts N] [--seed N] [--assessment NAME]
    python benchmarks/query_precision.py tally SAMPLE.jsonl

FOLDER contains one folder with source code for each package. Every query gets the same share of the sample as far as
it has facts, and descriptions are drawn only if they are asked for. A line of the sample is one fact with its source
around it; write `true`, `misleading` or `false` into its `verdict`, and why into its `reason`:

    true        each word holds, and an expert who asked about the topic would act on it or wants to know it
    misleading  the words hold, but the expert would not act on them, or the fix does not fit
    false       a word is not so, or the fix would break the code
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import fact_queries, inspect

VERDICTS = ("true", "misleading", "false")
_AROUND = 8
_JUDGED = tuple(each for each in Assessment if each is not Assessment.DESCRIPTION)


def draw(folder: Path, most: int, seed: int, assessments: tuple[Assessment, ...]) -> list[dict[str, Any]]:
    """Return a sample of facts, the same one for a seed; equal shares for the queries, and for the packages in them.

    Raises:
        SystemExit: The folder contains no package.
    """
    packages = sorted(path for path in folder.iterdir() if path.is_dir())
    if not packages:
        raise SystemExit(f"{folder} contains no folder of a package")
    random_numbers = random.Random(seed)  # noqa: S311 - a sample that can be drawn again
    by_query: dict[str, list[list[dict[str, Any]]]] = defaultdict(list)
    for package in packages:
        for query, rows in _facts(package, assessments).items():
            random_numbers.shuffle(rows)
            by_query[query].append(rows)
    shares = {query: _alternating(groups) for query, groups in sorted(by_query.items())}
    return _alternating(list(shares.values()))[:most]


def _facts(package: Path, assessments: tuple[Assessment, ...]) -> dict[str, list[dict[str, Any]]]:
    """Return the facts about a package by query."""
    queries = fact_queries()
    subject = InspectionSubject(tuple(dict.fromkeys(topic for query in queries for topic in query.topics)))
    done = inspect(package, [package], subject, names=[query.name for query in queries])
    found: dict[str, list[dict[str, Any]]] = {}
    for result in done.results:
        if result.problem:
            print(f"{package.name}: {result.name} {result.problem}", file=sys.stderr)
        for fact in result.facts:
            if fact.assessment in assessments:
                lines = done.lines.get(fact.path, ())
                first = max(0, fact.line - 1 - _AROUND)
                around = lines[first : max(fact.line, min(fact.end_line, fact.line + _AROUND)) + _AROUND]
                row = {
                    "package": package.name,
                    "query": result.name,
                    "topic": next((", ".join(query.topics) for query in queries if query.name == result.name), ""),
                    "file": fact.path,
                    "line": fact.line,
                    "assessment": str(fact.assessment),
                    "rule": fact.rule,
                    "text": fact.text,
                    "remedy": fact.remedy,
                    "source": [f"{first + number}: {line}" for number, line in enumerate(around, start=1)],
                    "verdict": "",
                    "reason": "",
                }
                found.setdefault(result.name, []).append(row)
    return found


def _alternating(groups: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the members of groups in turn, so that a cut leaves equal shares."""
    longest = max(map(len, groups), default=0)
    return [group[position] for position in range(longest) for group in groups if position < len(group)]


def tally(rows: list[dict[str, Any]]) -> str:
    """Return how many facts are true, misleading and false: all, by assessment and by query.

    Raises:
        SystemExit: A fact has another verdict.
    """
    for number, row in enumerate(rows, start=1):
        if row["verdict"] not in {"", *VERDICTS}:
            raise SystemExit(f"line {number}: {row['verdict']!r} is not one of {', '.join(VERDICTS)}")
    judged = [row for row in rows if row["verdict"]]
    lines = [f"{len(judged)} of {len(rows)} facts are judged", f"{'':34}  facts  true  misleading  false  share true"]
    lines.append(_row("all", judged))
    for key in ("assessment", "query"):
        lines += [_row(name, [row for row in judged if row[key] == name]) for name in sorted({r[key] for r in judged})]
    return "\n".join(lines)


def _row(name: str, rows: list[dict[str, Any]]) -> str:
    counts = Counter(row["verdict"] for row in rows)
    low, high = _interval(counts["true"], len(rows))
    shares = "  ".join(f"{counts[verdict]:{len(verdict)}}" for verdict in VERDICTS)
    share = counts["true"] / len(rows) if rows else 0.0
    return f"{name:34}  {len(rows):5}  {shares}  {share:6.0%} ({low:.0%} to {high:.0%})"


def _interval(hits: int, trials: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a share.

    Source:
        Wilson (1927), the score interval.
    """
    if not trials:
        return 0.0, 1.0
    z, share = 1.959964, hits / trials
    middle = share + z * z / (2 * trials)
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    whole = 1 + z * z / trials
    return max(0.0, (middle - spread) / whole), min(1.0, (middle + spread) / whole)


def main() -> None:
    """Draw a sample or tally a judged one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw", help="write a sample of facts")
    drawing.add_argument("folder", type=Path)
    drawing.add_argument("sample", type=Path)
    drawing.add_argument("--facts", type=int, default=150)
    drawing.add_argument("--seed", type=int, default=0)
    drawing.add_argument("--assessment", action="append", choices=[str(each) for each in Assessment])
    tallying = commands.add_parser("tally", help="count the verdicts of a judged sample")
    tallying.add_argument("sample", type=Path)
    options = parser.parse_args()
    if options.command == "draw":
        wanted = tuple(map(Assessment, options.assessment or ())) or _JUDGED
        rows = draw(options.folder, options.facts, options.seed, wanted)
        options.sample.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        print(f"{len(rows)} facts: {options.sample}")
    else:
        rows = [json.loads(line) for line in options.sample.read_text(encoding="utf-8").splitlines()]
        print(tally(rows))


if __name__ == "__main__":
    main()
