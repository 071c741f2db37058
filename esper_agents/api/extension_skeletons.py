"""Skeletons of extensions: a working example with its test, from templates in `skeletons/`."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from esper_agents.errors import InputFileError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEMPLATES = Path(__file__).with_name("skeletons")
_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_LONGEST_NAME = 60
# Jobs of measurements, which run in the user's Python.
_JOBS = "esper_agents/torchlab/worker/jobs"
_CODE = re.compile(r"ESP2(\d\d)")


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
    """

    kind: ExtensionKind
    name: str
    files: tuple[Path, ...]
    test_command: str
    entry_point: str


@dataclass(frozen=True, slots=True)
class _Home:
    """Folder of an extension: in a checkout of esper-agents or in a package of the user."""

    folder: Path
    tests: Path
    is_own: bool
    package: str = ""


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
    kind: ExtensionKind, name: str, *, project: str | Path = ".", package: Path | None = None
) -> ExtensionSkeleton:
    """Write a working example of an extension and its test, with the lines to change marked `FILL`.

    In a checkout of esper-agents, the files go where its own extensions are. In another project, an agent goes into
    `.esper/agents`, and everything else into a Python package, for which the entry point is returned.

    Args:
        kind: Kind of the extension.
        name: Name in words joined by hyphens; a playbook has the name of its agent.
        project: Project directory.
        package: Folder of the Python package, relative to the project; None for its only package.

    Raises:
        UsageError: The name is invalid or used, the package is not clear, or a measurement is not for a checkout.
        InputFileError: A file exists already, or cannot be written.
    """
    root = Path(project).resolve()
    module = name.replace("-", "_")
    if not _NAME.fullmatch(name) or keyword.iskeyword(module) or len(name) > _LONGEST_NAME:
        raise UsageError(
            f"{name[:_LONGEST_NAME]!r} is not a valid name",
            remedy="use lower-case words joined by hyphens: my-first-rule",
        )
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
        "code": _free_code(is_own=home.is_own) if kind is ExtensionKind.RULE else "",
        "imports": imports,
        "types": types,
        "package": home.package,
        "file": file.relative_to(root).as_posix(),
        "depth": str(len(test.relative_to(root).parts) - 1),
    }
    templates = {file: "agent.md.txt" if is_agent else f"{kind}.py.txt", test: f"{kind}_test.py.txt"}
    if kind is ExtensionKind.MEASUREMENT:
        templates = {file: templates[file], root / _JOBS / file.name: f"{kind}_job.py.txt", test: templates[test]}
    texts = {path: _filled(template, values) for path, template in templates.items()}
    _write(root, texts)
    return ExtensionSkeleton(
        kind,
        name,
        tuple(path.relative_to(root) for path in texts),
        f"python -m pytest {test.relative_to(root)}",
        _entry_point(kind, name, module, home),
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
    found = [each.parent for base in (root, root / "src") for each in sorted(base.glob("*/__init__.py"))]
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
            from esper_agents.api.review import lint_rules

            used = {rule.name for rule in lint_rules()}
        case ExtensionKind.TOOL:
            from esper_agents.tools.registry import load_tools

            used = set(load_tools().tools)
        case ExtensionKind.AGENT:
            from esper_agents.agents.registry import load_registry

            used = set(load_registry(None).agents)
        case ExtensionKind.PLAYBOOK | ExtensionKind.MEASUREMENT:
            pass
    if name in used and not (home.folder / f"{name}.md").exists():
        raise UsageError(f"a {kind} named {name!r} exists already", remedy="choose another name")


def _free_code(*, is_own: bool) -> str:
    """Return an unused code for silent correctness: the next one here, the last one in other packages."""
    from esper_agents.api.review import lint_rules

    used = {int(found[1]) for rule in lint_rules() if (found := _CODE.fullmatch(rule.code))}
    free = [number for number in range(1, 100) if number not in used]
    return f"ESP2{next(each for each in free if each > max(used)) if is_own else free[-1]:02}"


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
