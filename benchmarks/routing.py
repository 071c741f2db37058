"""Measures how often the router selects an acceptable agent, and how long that takes.

Run it with `python benchmarks/routing.py [--requests FILE]... [--misses] [--json]`. A file has one JSON object on each
line: `text`, and `agents` or `acceptable` with the acceptable agents, best first. Without files it reads
`benchmarks/routing`, which the weights were trained on; `benchmarks/train_router.py --cross-validate` measures each of
its authors with weights that were trained without that author.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from train_router import REQUESTS, AuthorResult, read_requests

from esper_agents.agents.registry import load_registry
from esper_agents.agents.router import REFUSED, Router
from esper_agents.agents.routing.weights import load_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONG_CHARACTERS = 100_000


@dataclass(frozen=True, slots=True)
class RoutingResult:
    """Result of the requests of one file.

    Attributes:
        name: Name of the file.
        result: Numbers of acceptable agents and refusals.
        p50_ms: Median time of a request, in processor time.
        p95_ms: 95th percentile.
        misses: Requests that reached no acceptable agent, with the agent and the explanation.
    """

    name: str
    result: AuthorResult
    p50_ms: float
    p95_ms: float
    misses: list[tuple[str, str, str]] = field(default_factory=list)


def main() -> None:
    """Measure the router and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=Path, action="append", help="file of requests")
    parser.add_argument("--misses", action="store_true", help="print requests that reach no acceptable agent")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    start = time.process_time()
    load_weights()
    load_ms = (time.process_time() - start) * 1000
    router = Router(tuple(load_registry(None).agents.values()))
    long_ms = _time_ms(router, "my loss is NaN after the last merge, see the log. " * (_LONG_CHARACTERS // 50))
    results = [_measure(router, path) for path in options.requests or sorted(REQUESTS.glob("author_*.jsonl"))]
    if options.json:
        print(json.dumps({"load_ms": load_ms, "long_ms": long_ms, "files": [asdict(each) for each in results]}))
        return
    print(f"weights loaded in {load_ms:.1f} ms; a request of {_LONG_CHARACTERS:,} characters takes {long_ms:.1f} ms")
    for result in results:
        print(f"{result.name}: {result.result}; p50 {result.p50_ms:.2f} ms, p95 {result.p95_ms:.2f} ms")
        for text, label, explanation in result.misses if options.misses else ():
            print(f"  missed: {text!r}\n    got {label}; {explanation}")


def _measure(router: Router, path: Path) -> RoutingResult:
    requests = read_requests(path)
    times_ms, chosen, misses = [], [], []
    for request in requests:
        start = time.process_time()
        route = router.route(request.text)
        times_ms.append((time.process_time() - start) * 1000)
        label = route.agent or REFUSED
        chosen.append(label)
        if label not in request.labels:
            misses.append((request.text, label, route.explanation))
    result = AuthorResult.of(requests, chosen)
    return RoutingResult(path.stem, result, _quantile(times_ms, 50), _quantile(times_ms, 95), misses)


def _time_ms(router: Router, request: str) -> float:
    router.route(request)
    start = time.process_time()
    router.route(request)
    return (time.process_time() - start) * 1000


def _quantile(times_ms: Sequence[float], percent: int) -> float:
    return statistics.quantiles(times_ms, n=100, method="inclusive")[percent - 1]


if __name__ == "__main__":
    main()
