"""Measures how often the router gives a request to the right agent, and how long that takes.

Run it with `python benchmarks/routing.py [--json]`. Each line of a set in `benchmarks/routing/` is a request with the
agent that is `best` for it and those that are `acceptable`. The router learns from four fifths of the development set
(`prompts/routing/taught.jsonl`, written by `--teach`), so that set is also measured in five parts, each by a router
that learnt from the other four. What was missed is listed for the development set only: the held-out set stays unread.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.agents.registry import load_registry
from esper_agents.agents.router import Router
from esper_agents.agents.routing.evidence import REFUSED as NOBODY
from esper_agents.agents.routing.taught import Taught
from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.route import Route

_SETS = Path(__file__).with_suffix("")
_DEVELOPMENT = "development"
_REFUSED = "REFUSED"
_PARTS = 5


@dataclass(slots=True)
class Outcome:
    """What came of one set.

    Attributes:
        name: The set's name.
        prompts: How many there are.
        best: How many went to the best agent.
        acceptable: How many went to one that will do.
        p50_ms: Median time for a request.
        p95_ms: What 95 of 100 stay below.
        cpu_p95_ms: The same in processor time, which other work on the machine does not lengthen.
        confusion: How often an agent was given what was best given to another.
        by_tag: For each tag of the development set, how many prompts and how many acceptable.
        untaught: How many were acceptable when each part was left out of what the router learnt from.
        misses: Requests of the development set that went to nobody acceptable.
    """

    name: str
    prompts: int = 0
    best: int = 0
    acceptable: int = 0
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    cpu_p95_ms: float = 0.0
    confusion: dict[str, dict[str, int]] = field(default_factory=dict)
    by_tag: dict[str, tuple[int, int]] = field(default_factory=dict)
    untaught: int | None = None
    misses: list[dict[str, str]] = field(default_factory=list)


def main() -> None:
    """Measure every set that is there and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--teach", action="store_true", help="write what the router learns from, and stop")
    asked = parser.parse_args()
    if asked.teach:
        _teach()
        return
    router = Router(tuple(load_registry(None).agents.values()))
    router.route("warm up")
    outcomes = [_measure(router, path) for path in sorted(_SETS.glob("*.jsonl"))]
    if asked.json:
        print(json.dumps([asdict(outcome) for outcome in outcomes], indent=2, sort_keys=True))
        return
    for outcome in outcomes:
        _print(outcome)


def _measure(router: Router, path: Path) -> Outcome:
    prompts = _prompts(path)
    outcome = Outcome(path.stem, len(prompts))
    wall_ms, cpu_ms = [], []
    tags: dict[str, Counter[bool]] = {}
    for prompt in prompts:
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        route = router.route(prompt["text"], code=prompt.get("code", ""), paths=prompt.get("paths", ()))
        cpu_ms.append((time.thread_time_ns() - cpu) / 1e6)
        wall_ms.append((time.perf_counter_ns() - wall) / 1e6)
        is_acceptable = _score(outcome, prompt, route)
        for tag in prompt.get("tags", ()) if outcome.name == _DEVELOPMENT else ():
            tags.setdefault(tag, Counter())[is_acceptable] += 1
    outcome.by_tag = {tag: (counted.total(), counted[True]) for tag, counted in sorted(tags.items())}
    outcome.p50_ms, outcome.p95_ms, outcome.cpu_p95_ms = (
        _quantile(wall_ms, 50),
        _quantile(wall_ms, 95),
        _quantile(cpu_ms, 95),
    )
    if outcome.name == _DEVELOPMENT:
        outcome.untaught = _untaught(prompts)
    return outcome


def _score(outcome: Outcome, prompt: dict[str, Any], route: Route) -> bool:
    got = route.agent or _REFUSED
    is_acceptable = got in prompt["acceptable"]
    outcome.best += got == prompt["best"]
    outcome.acceptable += is_acceptable
    row = outcome.confusion.setdefault(prompt["best"], {})
    row[got] = row.get(got, 0) + 1
    if not is_acceptable and outcome.name == _DEVELOPMENT:
        miss = {"text": prompt["text"], "best": prompt["best"], "got": got, "explanation": route.explanation}
        outcome.misses.append(miss)
    return is_acceptable


def _untaught(prompts: Sequence[dict[str, Any]]) -> int:
    """Return how many prompts a router gets right that learnt from the other parts only."""
    agents = tuple(load_registry(None).agents.values())
    right = 0
    for part in range(_PARTS):
        router = Router(agents, taught=[_lesson(each) for each in prompts if _part(each) != part])
        routes = ((each, router.route(each["text"])) for each in prompts if _part(each) == part)
        right += sum((route.agent or _REFUSED) in each["acceptable"] for each, route in routes)
    return right


def _teach() -> None:
    lessons = [_lesson(each) for each in _prompts(_SETS / f"{_DEVELOPMENT}.jsonl") if _part(each)]
    lines = (json.dumps({"text": each.text, "agents": each.agents}, ensure_ascii=False) for each in lessons)
    (data_folder("prompts") / "routing" / "taught.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _prompts(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def _lesson(prompt: dict[str, Any]) -> Taught:
    return Taught(prompt["text"], tuple(NOBODY if each == _REFUSED else each for each in prompt["acceptable"]))


def _part(prompt: dict[str, Any]) -> int:
    return int(hashlib.sha256(prompt["text"].encode()).hexdigest(), 16) % _PARTS


def _quantile(times_ms: Sequence[float], percent: int) -> float:
    return round(statistics.quantiles(times_ms, n=100, method="inclusive")[percent - 1], 3)


def _print(outcome: Outcome) -> None:
    print(f"{outcome.name}: {outcome.prompts} prompts")
    print(f"  best agent        {outcome.best / outcome.prompts:7.1%}")
    print(f"  acceptable agent  {outcome.acceptable / outcome.prompts:7.1%}")
    if outcome.untaught is not None:
        print(f"  the same untaught {outcome.untaught / outcome.prompts:7.1%}")
    print(
        f"  time              p50 {outcome.p50_ms} ms, p95 {outcome.p95_ms} ms ({outcome.cpu_p95_ms} ms of processor)"
    )
    print("  best given to: got, times")
    for best, row in sorted(outcome.confusion.items()):
        got = ", ".join(f"{name} {times}" for name, times in sorted(row.items(), key=lambda each: (-each[1], each[0])))
        print(f"    {best}: {got}")
    if outcome.name == _DEVELOPMENT:
        print("  by tag: " + ", ".join(f"{tag} {hit}/{total}" for tag, (total, hit) in outcome.by_tag.items()))
        for miss in outcome.misses:
            print(f"  missed: {miss['text']!r}\n    best {miss['best']}, got {miss['got']}; {miss['explanation']}")
    print()


if __name__ == "__main__":
    main()
