"""Skeletons of extensions: a working example with its test, from templates in `skeletons/`."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.errors import InputFileError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEMPLATES = Path(__file__).with_name("skeletons")
_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_LONGEST_NAME = 60
# Commands of `esper torch` that are no measurements.
_OTHER_COMMANDS = {"environment", "verify"}
# Parts of measurements that run in the user's Python, in a folder for each.
_WORKER = "esper_agents/torchlab/worker"
_CODE = re.compile(r"ESP(\d)(\d\d)")
# First digits of the codes of each category; a later one where the codes of the first are taken.
_HUNDREDS = {
    Category.CORRECTNESS: "1",
    Category.SILENT_CORRECTNESS: "26",
    Category.MEMORY: "3",
    Category.PERFORMANCE: "4",
    Category.COMPILE: "5",
    Category.COMPANION: "7",
    Category.SECURITY: "9",
}


class ExtensionKind(StrEnum):
    """Kind of an extension."""

    RULE = "rule"
    TOOL = "tool"
    PLAYBOOK = "playbook"
    MEASUREMENT = "measurement"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class ExtensionSkeleton:
    """Files of a new extension.

    Attributes:
        kind: Kind of the extension.
        name: Its name.
        files: Written files, relative to the project: the extension first, its test last.
        test_command: Command that runs the test, in the project.
        entry_point: Lines for the `pyproject.toml` of a package of your own; empty if the file is found without.
        steps: What else a checkout of esper-agents needs, such as documentation; empty in other projects.
    """

    kind: ExtensionKind
    name: str
    files: tuple[Path, ...]
    test_command: str
    entry_point: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Home:
    """Folder of an extension: in a checkout of esper-agents or in a package of the user."""

    folder: Path
    tests: Path
    is_own: bool
    package: str = ""


# Steps in a checkout of esper-agents that no skeleton can take.
_STEPS = {
    ExtensionKind.RULE: (
        "python -m pytest tests/review/test_rules.py -k $code",
        "make docs # writes docs/rules.md",
    ),
    ExtensionKind.TOOL: ("add a row to docs/tools.md",),
    ExtensionKind.PLAYBOOK: (),
    ExtensionKind.MEASUREMENT: (
        "esper torch $name FILE.py:NAME",
        "add a section '## `$name`: ...' to docs/torch.md, and a row to its first table",
        "make docs # writes the option table, the tables of commands and the schema of reports",
    ),
    ExtensionKind.AGENT: (),
}
_LAST_STEP = "write changes/+$name.added.md: what users can do now, in one sentence"
# Folder of the extensions and of their tests in a checkout of esper-agents.
_OWN = {
    ExtensionKind.RULE: ("esper_agents/review/rules", "tests/review"),
    ExtensionKind.TOOL: ("esper_agents/tools", "tests/tools"),
    ExtensionKind.PLAYBOOK: ("esper_agents/reasoning/playbooks", "tests/reasoning/playbooks"),
    ExtensionKind.MEASUREMENT: ("esper_agents/torchlab/measurements", "tests/torchlab/measurements"),
    ExtensionKind.AGENT: ("prompts/agents", "tests/agents"),
}
_OWN_TOOL = "from esper_agents.tools.tool import ToolContext, ToolResult, tool"
# Imports of a skeleton, at run time and for type checkers only: inside esper-agents, imports go down the layers.
_OWN_IMPORTS = {
    ExtensionKind.RULE: (
        "from esper_agents.domain.finding import Category, Severity\nfrom esper_agents.review.rule import FileRule",
        "from esper_agents.review.rule import RuleMatch\n    from esper_agents.review.tables import FileTables",
    ),
    ExtensionKind.TOOL: (
        "from esper_agents.domain.evidence import Risk, source_file\n" + _OWN_TOOL,
        "",
    ),
    ExtensionKind.PLAYBOOK: (
        "from esper_agents.domain.agent_action import CallTools, Conclude, ToolCall",
        "from esper_agents.domain.frame import Brief",
    ),
    ExtensionKind.MEASUREMENT: ("", ""),
    ExtensionKind.AGENT: ("", ""),
}
_PUBLIC_IMPORTS = {
    ExtensionKind.RULE: (
        "from esper_agents.api import Category, FileRule, Severity",
        "from esper_agents.api import FileTables, RuleMatch",
    ),
    ExtensionKind.TOOL: ("from esper_agents.api import Risk, ToolContext, ToolResult, source_file, tool", ""),
    ExtensionKind.PLAYBOOK: (
        "from esper_agents.api import CallTools, Conclude, ToolCall",
        "from esper_agents.api import Brief",
    ),
    ExtensionKind.MEASUREMENT: ("", ""),
    ExtensionKind.AGENT: ("", ""),
}


def new_extension(
    kind: ExtensionKind,
    name: str,
    *,
    category: Category | None = None,
    project: str | Path = ".",
    package: Path | None = None,
) -> ExtensionSkeleton:
    """Write a working example of an extension and its test, with the lines to change marked `FILL`.

    In a checkout of esper-agents, the files go where its own extensions are. In another project, an agent goes into
    `.esper/agents`, and everything else into a Python package, for which the entry point is returned.

    Args:
        kind: Kind of the extension.
        name: Name in words joined by hyphens; a playbook has the name of its agent.
        category: Category of a rule, which determines its code; None for silent correctness.
        project: Project directory.
        package: Folder of the Python package, relative to the project; None for its only package.

    Raises:
        UsageError: The name is invalid or used, the package is not clear, a measurement is not for a checkout, or an
            extension that is no rule has a category.
        InputFileError: A file exists already, or cannot be written.
    """
    root = Path(project).resolve()
    module = name.replace("-", "_")
    if not _NAME.fullmatch(name) or keyword.iskeyword(module) or len(name) > _LONGEST_NAME:
        raise UsageError(
            f"{name[:_LONGEST_NAME]!r} is not a valid name",
            remedy="use lower-case words joined by hyphens: my-first-rule",
        )
    if category is not None and kind is not ExtensionKind.RULE:
        raise UsageError(f"a {kind} has no category", remedy="omit --category, which is for rules")
    category = category or Category.SILENT_CORRECTNESS
    home = _home(kind, root, package)
    is_agent = kind is ExtensionKind.AGENT
    file = home.folder / (f"{name}.md" if is_agent else f"{module}.py")
    test = home.tests / f"test_{module}{_suffix(kind, home)}.py"
    _refuse_used(kind, name, home)
    imports, types = (_OWN_IMPORTS if home.is_own else _PUBLIC_IMPORTS)[kind]
    values = {
        "name": name,
        "words": name.replace("-", " "),
        "module": module,
        "cls": "".join(word.capitalize() for word in name.split("-")),
        "code": _free_code(category, is_own=home.is_own) if kind is ExtensionKind.RULE else "",
        "category": category.name,
        "imports": imports,
        "types": types,
        "package": home.package,
        "file": file.relative_to(root).as_posix(),
        "depth": str(len(test.relative_to(root).parts) - 1),
    }
    templates = {file: "agent.md.txt" if is_agent else f"{kind}.py.txt", test: f"{kind}_test.py.txt"}
    if kind is ExtensionKind.MEASUREMENT:
        folder = root / _WORKER / module
        parts = {"__init__.py": "package", "job.py": "job", "result.py": "result"}
        worker = {folder / each: f"{kind}_{part}.py.txt" for each, part in parts.items()}
        templates = {file: templates[file], **worker, test: templates[test]}
    texts = {path: _filled(template, values) for path, template in templates.items()}
    _write(root, texts)
    return ExtensionSkeleton(
        kind,
        name,
        tuple(path.relative_to(root) for path in texts),
        f"python -m pytest {test.relative_to(root)}",
        _entry_point(kind, name, module, home),
        tuple(Template(each).substitute(values) for each in (*_STEPS[kind], _LAST_STEP)) if home.is_own else (),
    )


def _home(kind: ExtensionKind, root: Path, package: Path | None) -> _Home:
    """Return the folders for an extension.

    Raises:
        UsageError: The project has no package or more than one, and none is named.
    """
    if (root / "esper_agents/review/rules").is_dir() and (root / "prompts/agents").is_dir():
        folder, tests = _OWN[kind]
        return _Home(root / folder, root / tests, is_own=True, package=folder.replace("/", "."))
    if kind is ExtensionKind.MEASUREMENT:
        problem = f"{str(root)!r} is not a checkout of esper-agents, to which measurements belong"
        raise UsageError(problem, remedy="name a checkout with --project, or write a tool: esper dev new tool NAME")
    if kind is ExtensionKind.AGENT:
        return _Home(root / ".esper/agents", root / "tests", is_own=False)
    folders = [root / package] if package else _packages(root)
    if len(folders) != 1 or not (folders[0] / "__init__.py").is_file() or not folders[0].resolve().is_relative_to(root):
        problem = f"{str(package)!r} is not a Python package of the project" if package else "the package is not clear"
        raise UsageError(problem, remedy=f"esper dev new {kind} NAME --package my_package")
    start = root / "src" if folders[0].is_relative_to(root / "src") else root
    return _Home(folders[0], root / "tests", is_own=False, package=".".join(folders[0].relative_to(start).parts))


def _packages(root: Path) -> list[Path]:
    found = [path.parent for base in (root, root / "src") for path in sorted(base.glob("*/__init__.py"))]
    return [each for each in found if each.name != "tests"]


def _suffix(kind: ExtensionKind, home: _Home) -> str:
    """Return the suffix of the test's name: agents, tools and playbooks of a package may share a name."""
    return "" if home.is_own and kind is not ExtensionKind.AGENT else f"_{kind}"


def _refuse_used(kind: ExtensionKind, name: str, home: _Home) -> None:
    """Raise an error if another extension of the kind has the name.

    Raises:
        UsageError: The name is used.
    """
    used: set[str] = set()
    match kind:
        case ExtensionKind.RULE:
            from esper_agents.api.rules import lint_rules

            used = {rule.name for rule in lint_rules()}
        case ExtensionKind.TOOL:
            from esper_agents.tools.registry import load_tools

            used = set(load_tools().tools)
        case ExtensionKind.AGENT:
            from esper_agents.agents.registry import load_registry

            used = set(load_registry(None).agents)
        case ExtensionKind.MEASUREMENT:
            from esper_agents.torchlab.worker.jobs import MODULES

            # A part of another measurement is a job, too, and would be run in its place.
            used = {module.replace("_", "-") for module in MODULES} | _OTHER_COMMANDS
        case ExtensionKind.PLAYBOOK:
            pass
    if name in used and not (home.folder / f"{name}.md").exists():
        raise UsageError(f"a {kind} named {name!r} exists already", remedy="choose another name")


def _free_code(category: Category, *, is_own: bool) -> str:
    """Return an unused code of a category: the next one here, the last one in other packages."""
    from esper_agents.api.rules import lint_rules

    codes = [found for rule in lint_rules() if (found := _CODE.fullmatch(rule.code))]
    used = {f"{found[1]}{found[2]}" for found in codes if found[1] in _HUNDREDS[category]}
    free = [
        code for digit in _HUNDREDS[category] for number in range(1, 100) if (code := f"{digit}{number:02}") not in used
    ]
    # A code that a removed rule had is not given again.
    chosen = next(each for each in free if each > max(used, default="")) if is_own else free[-1]
    return f"ESP{chosen}"


def _filled(template: str, values: Mapping[str, str]) -> str:
    return Template((_TEMPLATES / template).read_text(encoding="utf-8")).substitute(values)


def _write(root: Path, texts: Mapping[Path, str]) -> None:
    """Write new files, or none if one exists.

    Raises:
        InputFileError: A file exists, or cannot be written.
    """
    for file in texts:
        if file.exists() or file.is_symlink():
            raise InputFileError(
                str(file.relative_to(root)), "the file exists already", remedy="choose another name, or delete it"
            )
    for file, text in texts.items():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as stream:
                stream.write(text)
        except OSError as error:
            problem = f"the file cannot be written, {(error.strerror or 'unknown reason').lower()}"
            raise InputFileError(str(file), problem, remedy="make its folder writable") from error


def _entry_point(kind: ExtensionKind, name: str, module: str, home: _Home) -> str:
    if home.is_own or kind is ExtensionKind.AGENT:
        return ""
    suffix = {ExtensionKind.TOOL: f":{module}", ExtensionKind.PLAYBOOK: ":play"}.get(kind, "")
    return f'[project.entry-points."esper_agents.{kind}s"]\n{name} = "{home.package}.{module}{suffix}"'
