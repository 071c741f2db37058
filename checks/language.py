"""Check names, texts and pages against the language rules: `python checks/language.py [PATH ...]`.

Prints `file:line: problem` for each text that breaks a rule and exits with 1 if there is one. The rejected words and
the paths that are not checked are in `checks/language.toml`.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "esper_agents"
PAGES = ("README.md", "CONTRIBUTING.md", "docs/**/*.md")
LONGEST_HELP = 45
LONGEST_DOCSTRING = 100
_SETTINGS = tomllib.loads(Path(__file__).with_name("language.toml").read_text(encoding="utf-8"))
_WORDS = re.compile(rf"\b(?:{'|'.join(_SETTINGS['words'])})\b", re.IGNORECASE)
_CLAUSE = re.compile(r"(?:What|Who|Where|Whether|Which|How|When)\b")


def main() -> None:
    """Check the given paths, or everything, and exit with 1 if something breaks a rule."""
    paths = [Path(argument).resolve() for argument in sys.argv[1:]]
    files = [file for file in checked_files() if not paths or any(file.is_relative_to(path) for path in paths)]
    problems = [
        problem for file in files for problem in (python_problems if file.suffix == ".py" else page_problems)(file)
    ]
    if not paths:
        problems += [*duplicate_classes(), *long_helps()]
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    sys.exit(bool(problems))


def checked_files() -> Iterator[Path]:
    """Yield the modules and pages that no excluded path covers."""
    excluded = [file for pattern in _SETTINGS["excluded"] for file in ROOT.glob(pattern)]
    for file in [*sorted(PACKAGE.rglob("*.py")), *(file for pattern in PAGES for file in sorted(ROOT.glob(pattern)))]:
        if not any(file.is_relative_to(path) for path in excluded):
            yield file


def python_problems(file: Path) -> Iterator[str]:
    """Yield the problems of a module: rejected words in its texts, and a docstring that is a clause or too long."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from _rejected(file, node.lineno, node.value)
    first_line = (ast.get_docstring(tree) or "").partition("\n")[0]
    if _CLAUSE.match(first_line):
        yield _problem(file, 1, f"module docstring begins with a clause: {first_line}")
    if len(first_line) > LONGEST_DOCSTRING:
        yield _problem(file, 1, f"module docstring is longer than {LONGEST_DOCSTRING} characters: {first_line}")


def page_problems(file: Path) -> Iterator[str]:
    """Yield the rejected words of a page."""
    yield from _rejected(file, 1, file.read_text(encoding="utf-8"))


def duplicate_classes() -> Iterator[str]:
    """Yield the public classes that more than one checked module defines."""
    defined = defaultdict(list)
    for file in checked_files():
        if file.suffix == ".py":
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    defined[node.name].append((file, node.lineno))
    for name, places in sorted(defined.items()):
        if len(places) > 1:
            file, line = places[-1]
            others = ", ".join(str(other.relative_to(ROOT)) for other, _ in places[:-1])
            yield _problem(file, line, f"class {name} is also defined in {others}")


def long_helps() -> Iterator[str]:
    """Yield the commands whose short help is missing or too long."""
    import typer.main

    from esper_agents.cli.main import build

    for name, command in _commands("esper", typer.main.get_command(build())):
        short_help = command.get_short_help_str(limit=1000)
        if not short_help or len(short_help) > LONGEST_HELP:
            yield f"{name}: short help is missing or longer than {LONGEST_HELP} characters: {short_help!r}"


def _commands(name: str, command: object) -> Iterable[tuple[str, object]]:
    yield name, command
    for each, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _commands(f"{name} {each}", inner)


def _rejected(file: Path, line: int, text: str) -> Iterator[str]:
    stored = _SETTINGS["stored"].get(file.relative_to(ROOT).as_posix(), ())
    for match in _WORDS.finditer(text):
        if match[0].lower() not in stored:
            yield _problem(file, line + text.count("\n", 0, match.start()), f"rejected word: {match[0]!r}")


def _problem(file: Path, line: int, problem: str) -> str:
    return f"{file.relative_to(ROOT)}:{line}: {problem}"


if __name__ == "__main__":
    main()
