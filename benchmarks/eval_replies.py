"""Run tasks of `esper eval` again with the recorded replies of an author who played the model.

The replies are in `eval_replies/pytorch.json`: for each task the turns, each with texts and tool calls. A scripted
server sends them through the real SDK; the tools, the checks and the certificate are those of this version. What this
shows and what it does not is in `docs/eval.md`.

    python benchmarks/eval_replies.py [--task NAME] [--output FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.api import chosen_tasks, load_suite, run_suite, run_text
from esper_agents.testing.messages import MessagesServer
from esper_agents.testing.script import Say, ToolUseBlock

if TYPE_CHECKING:
    from esper_agents.domain.evaluation import EvalRun
    from esper_agents.testing.script import Answer

SUITE = "pytorch"
REPLIES = Path(__file__).parent / "eval_replies" / f"{SUITE}.json"


def answers(turns: list[list[dict[str, Any]]]) -> list[Answer]:
    """Return the recorded turns of a task as a script."""
    return [
        [Say(block["text"]) if "text" in block else ToolUseBlock(block["tool"], block["arguments"]) for block in turn]
        for turn in turns
    ]


async def run_recorded(names: list[str]) -> EvalRun:
    """Return the run of some tasks, or of all that have recorded replies."""
    recorded = json.loads(REPLIES.read_text(encoding="utf-8"))
    if unknown := [name for name in names if name not in recorded]:
        sys.exit(f"no recorded replies for {unknown[0]!r}\n  fix: name one of {', '.join(recorded)}")
    runs = []
    for name in names or recorded:
        with MessagesServer(answers(recorded[name])) as server:
            os.environ.update(server.environment)
            runs.append(await run_suite(chosen_tasks(load_suite(SUITE), [name]), reasoner="claude"))
    return replace(runs[0], scores=tuple(score for run in runs for score in run.scores))


def main() -> None:
    """Read the command line, run the tasks and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", action="append", default=[], metavar="NAME", help="only this task (repeatable)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where the run is stored as JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="esper-replies-") as home:
        os.environ["ESPER_HOME"] = home
        run = asyncio.run(run_recorded(given.task))
    for score in run.scores:
        facts, used = len(score.stated) + len(score.missing), score.expense
        sent = used.fresh + used.written + used.cached
        print(
            f"{score.task:40} {score.status:22} {len(score.stated)} of {facts} facts,"
            f" {len(score.false_statements)} false, {sent:,} tokens in, {used.output:,} out {score.problem}"
        )
    if given.output:
        given.output.write_text(run_text(run), encoding="utf-8")


if __name__ == "__main__":
    main()
