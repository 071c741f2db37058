"""Commands and options named in texts of the package, its data and its pages, against the command line."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import typer
from command_line import build

from esper_agents.cli.old_options import REFUSED, RENAMED

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "esper_agents"
DATA = [
    *(ROOT / "prompts").rglob("*.md"),
    *(ROOT / "prompts").rglob("*.toml"),
    *(ROOT / "certificates").rglob("*.j2"),
    *(ROOT / "certificates").rglob("*.toml"),
    *(ROOT / "memory").rglob("*.j2"),
    *(page for page in (ROOT / "docs").glob("*.md") if page.name != "rules.md"),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "action.yml", ".pre-commit-hooks.yaml", "Makefile")),
]
# A command ends with its line, its quotes, or the next command of a list.
COMMAND = re.compile(r"\besper (?=[a-z])([^`\n;|]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
# Modules that name an old option because they handle it.
HANDLES_OLD_NAMES = {PACKAGE / "cli/old_options.py", PACKAGE / "cli/review/command.py"}


def texts_of(module):
    """Yield the strings of a module, with an `X` for each expression in them."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    inner = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.value


def commands():
    """Return the visible commands by their words, and those that are groups."""
    found = {}

    def walk(words, command):
        found[words] = command
        for name in getattr(command, "commands", {}) or (
            command.list_commands(None) if hasattr(command, "list_commands") else ()
        ):
            inner = command.get_command(None, name)
            if not inner.hidden:
                walk((*words, name), inner)

    walk((), typer.main.get_command(build()))
    return found


COMMANDS = commands()


def options_of(command):
    shown = [param for param in command.params if not getattr(param, "hidden", False)]
    return {name for param in shown for name in (*param.opts, *param.secondary_opts)} | {"--help"}


CURRENT = set().union(*map(options_of, COMMANDS.values()))
OLD = {name for name in RENAMED if " " not in name} - CURRENT


def problems_of(text):
    """Yield the commands of a text that do not exist, and the options that they do not have."""
    for match in COMMAND.finditer(text):
        words = match[1].split()
        named = ()
        for word in words:
            if (*named, word.strip("'\".,:()")) not in COMMANDS:
                break
            named = (*named, word.strip("'\".,:()"))
        is_quoted = text[: match.start()].endswith("`") or not match.start()
        if not named:
            if is_quoted and re.fullmatch(r"[a-z-]+", words[0]):
                yield f"no such command: {match[0]}"
            continue
        known = options_of(COMMANDS[named])
        own = match[1].partition(" -- ")[0]
        if (
            getattr(COMMANDS[named], "list_commands", None)
            and is_quoted
            and re.fullmatch(r"[a-z-]{3,}", _next(words, named))
        ):
            yield f"no such command: {match[0]}"
        yield from (f"{option} of: {match[0]}" for option in OPTION.findall(own) if option not in known)
    yield from (f"old name {option} in: {text[:80]}" for option in OPTION.findall(text) if option in OLD)


def _next(words, named):
    return words[len(named)] if len(words) > len(named) else ""


def test_a_text_with_an_old_or_unknown_name_is_found():
    for text in ("esper submit --again X", "`esper gates`", "run `esper certificates lst`", "esper gate --summary F"):
        assert list(problems_of(text)), text
    assert not list(problems_of("run `esper submit --rerun X`; esper certificates list --cursor X"))


def test_the_texts_of_the_package_name_commands_and_options_that_exist():
    found = [
        f"{file.relative_to(ROOT)}: {problem}"
        for file in sorted(PACKAGE.rglob("*.py"))
        if file not in HANDLES_OLD_NAMES
        for text in texts_of(file)
        for problem in problems_of(text)
    ]
    assert not found, "\n".join(found)


def test_pages_and_data_name_commands_and_options_that_exist():
    found = [f"{file.name}: {problem}" for file in DATA for problem in problems_of(file.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


def test_every_renamed_option_leads_to_one_that_exists():
    assert {current[0] for current in RENAMED.values()} | set(REFUSED.values()) <= CURRENT
