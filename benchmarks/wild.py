"""Which share of agent, skill and command files as they are found in the wild can be loaded, and what is odd in them.

Run it with `python benchmarks/wild.py [--json]`. Read are the files in `tests/agents/wild`: faults one by one, and two
collections written to be like public ones; and, where they are there, the documents under `../shared/seeds`. Files that
are named `refused-` are to be refused in one line. Exits with 1 where anything else is refused.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.agents.commands import load_command
from esper_agents.agents.definition import load_definition, read_definition
from esper_agents.agents.plugins import PluginPart, load_plugin
from esper_agents.agents.skill_files import read_skill
from esper_agents.agents.skills import skills_in
from esper_agents.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from esper_agents.agents.skills import SkillFile
    from esper_agents.domain.agent import DefinitionWarning

_HERE = Path(__file__).resolve().parents[1]
WILD = _HERE / "tests/agents/wild"
SEEDS = _HERE.parent / "shared/seeds"
_TO_BE_REFUSED = "refused-"
_QUOTED = re.compile(r"^```markdown\n(---\n.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(slots=True)
class Outcome:
    """What came of the files of one place.

    Attributes:
        name: The place.
        files: How many there are of each sort.
        loaded: How many could be used.
        refused: What could not, each in one line.
        odd: How many were odd and loaded all the same.
        oddities: How many oddities were said, each with file and line.
        took_ms: How long all took.
    """

    name: str
    files: Counter[str] = field(default_factory=Counter)
    loaded: int = 0
    refused: list[str] = field(default_factory=list)
    odd: int = 0
    oddities: int = 0
    took_ms: float = 0.0

    def take(self, sort: str, load: Callable[[], tuple[DefinitionWarning, ...]]) -> None:
        """Load one file."""
        self.files[sort] += 1
        began = time.perf_counter()
        try:
            oddities = load()
        except DefinitionError as error:
            self.refused.append(error.problem)
        else:
            self.loaded += 1
            self.odd += bool(oddities)
            self.oddities += len(oddities)
            assert all(oddity.line >= 1 and oddity.path and oddity.remedy for oddity in oddities)
        self.took_ms += (time.perf_counter() - began) * 1000


def take_agents(outcome: Outcome, paths: Iterator[Path], namespace: str = "") -> None:
    """Load agent files."""
    for path in paths:
        outcome.take("agent", partial(_agent, path, namespace))


def take_skills(outcome: Outcome, folder: Path) -> None:
    """Load the skills of a folder."""
    for each in skills_in(folder):
        outcome.take("skill", partial(_skill, each))


def _agent(path: Path, namespace: str) -> tuple[DefinitionWarning, ...]:
    return load_definition(path, namespace=namespace).oddities


def _skill(file: SkillFile) -> tuple[DefinitionWarning, ...]:
    return read_skill(file).oddities


def _command(path: Path, namespace: str) -> tuple[DefinitionWarning, ...]:
    load_command(path, namespace=namespace)
    return ()


def _quoted(path: Path, text: str) -> tuple[DefinitionWarning, ...]:
    return read_definition(text.encode(), path=str(path), stem=path.stem).oddities


def faults() -> Outcome:
    """Return what came of the faults, one in each file."""
    outcome = Outcome("faults one by one")
    take_agents(outcome, (path for path in sorted(WILD.glob("*.md")) if not path.name.startswith(_TO_BE_REFUSED)))
    return outcome


def collection_a() -> Outcome:
    """Return what came of a flat folder of agents, with skills beside it."""
    outcome = Outcome("collection_a")
    take_agents(outcome, iter(sorted((WILD / "collection_a/agents").glob("*.md"))))
    take_skills(outcome, WILD / "collection_a/skills")
    return outcome


def collection_b() -> Outcome:
    """Return what came of packs in the plugin format."""
    outcome = Outcome("collection_b")
    for folder in sorted((WILD / "collection_b").iterdir()):
        plugin = load_plugin(folder)
        outcome.files["plugin"] += 1
        outcome.loaded += 1
        take_agents(outcome, iter(plugin.paths(PluginPart.AGENTS)), plugin.name)
        for skill_folder in plugin.skill_folders:
            take_skills(outcome, skill_folder)
        for path in plugin.paths(PluginPart.COMMANDS):
            outcome.take("command", partial(_command, path, plugin.name))
    return outcome


def seeds() -> Outcome:
    """Return what came of the documents that the project began with; nothing where they are not there."""
    outcome = Outcome("seeds")
    paths = sorted(SEEDS.glob("*.txt"))
    take_agents(outcome, iter(paths))
    for path in paths:
        # A report quotes the skills that it proposes.
        for text in _QUOTED.findall(path.read_text(encoding="utf-8")):
            outcome.take("quoted skill", partial(_quoted, path, text))
    return outcome


def refusals() -> Outcome:
    """Return what came of the files that no program could use."""
    outcome = Outcome("to be refused")
    take_agents(outcome, iter(sorted(WILD.glob(f"{_TO_BE_REFUSED}*"))))
    assert all("\n" not in each for each in outcome.refused)
    return outcome


def main() -> int:
    """Load everything and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    outcomes, unusable = [faults(), collection_a(), collection_b(), seeds()], refusals()
    if as_json:
        print(json.dumps([asdict(each) for each in (*outcomes, unusable)], indent=2))
    else:
        for outcome in outcomes:
            _print(outcome)
        print(f"{unusable.name}: {len(unusable.refused)} of {sum(unusable.files.values())} refused in one line")
        total, loaded = (
            sum(sum(outcome.files.values()) for outcome in outcomes),
            sum(outcome.loaded for outcome in outcomes),
        )
        print(f"all: {loaded} of {total} load, {100 * loaded / total:.1f} %")
    is_right = not any(outcome.refused for outcome in outcomes) and unusable.loaded == 0
    return 0 if is_right else 1


def _print(outcome: Outcome) -> None:
    total = sum(outcome.files.values())
    sorts = ", ".join(f"{count} {sort}s" for sort, count in sorted(outcome.files.items())) or "nothing here"
    share = f"{100 * outcome.loaded / total:.1f} %" if total else "-"
    print(f"{outcome.name}: {sorts}; {outcome.loaded} load, {share}; {outcome.odd} of them odd,", end=" ")
    print(f"{outcome.oddities} oddities said with file and line; {outcome.took_ms:.0f} ms")
    for each in outcome.refused:
        print(f"  refused: {each}")


if __name__ == "__main__":
    sys.exit(main())
