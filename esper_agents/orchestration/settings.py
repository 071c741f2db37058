"""Load settings from the user's `config.toml` and the project's `.esper/config.toml`.

The project's file is untrusted: it can only restrict, and its allow rules are ignored and reported.
"""

from __future__ import annotations

import re
import stat
import tomllib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.domain.permission_rule import PermissionDecision, PermissionRule, RuleSource
from esper_agents.domain.status import QuestionType
from esper_agents.errors import DefinitionError
from esper_agents.orchestration.model_settings import MODEL, MODELS, persons_models, projects_limits, tightened
from esper_agents.orchestration.permission_rules import is_void
from esper_agents.orchestration.setting_errors import line_of, refuse
from esper_agents.reasoning.models import ModelSettings

if TYPE_CHECKING:
    from pathlib import Path

PROJECT_FILE = ".esper/config.toml"
PERSONS_FILE = "config.toml"
_MOST_BYTES = 2**16
_MOST_RULES = 200
_MOST_CHARACTERS = 300
_MEMBERS = ("tool", "arguments", "action", "reason")
_TOML_LINE = re.compile(r"\(at line (\d+)")
_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*['\"]?rule['\"]?[ \t]*\]\]", re.MULTILINE)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_PUBLISH, _QUESTION_TYPES = "publish", "question_types"
_NAME_TYPES = f'write [publish] and below it {_QUESTION_TYPES} = ["{QuestionType.APPROVAL}", "{QuestionType.GO}"]'
VERIFY, _WITNESSES, _MOST_WITNESSES = "verify", "witnesses", 16
_NAME_WITNESSES = f'write [verify] and below it {_WITNESSES} = ["SHA256:..."]'
_LOOK = "see docs/approvals.md for the settings"


@dataclass(frozen=True, slots=True)
class PermissionSettings:
    """Settings of the user and the project for tools, and of the user for models.

    Attributes:
        rules: Effective permission rules.
        ignored: Allow rules of the project, which only the user may set.
        models: Settings for models: the user's, with the limits of the project.
        published: Question types whose certificates are published into projects.
    """

    rules: tuple[PermissionRule, ...] = ()
    ignored: tuple[PermissionRule, ...] = ()
    models: ModelSettings = field(default_factory=ModelSettings)
    published: frozenset[QuestionType] = frozenset(QuestionType)


def load_settings(home: Path, root: Path) -> PermissionSettings:
    """Load the settings of the user and of a project; a missing file has no settings.

    Args:
        home: `paths.home()`.
        root: Folder of the project.

    Raises:
        DefinitionError: A file cannot be read, or contains an invalid setting.
    """
    shown = str(home / PERSONS_FILE)
    text = _text_of(home / PERSONS_FILE, shown, is_persons=True)
    persons = read_rules(text, shown, RuleSource.PERSON)
    models = persons_models(text, shown)
    projects_text = _text_of(root / PROJECT_FILE, PROJECT_FILE, is_persons=False)
    projects = read_rules(projects_text, PROJECT_FILE, RuleSource.PROJECT)
    limits = projects_limits(projects_text, PROJECT_FILE)
    return PermissionSettings(
        (*persons, *(rule for rule in projects if not is_void(rule))),
        tuple(rule for rule in projects if is_void(rule)),
        replace(models, activities=tightened(models.activities, limits)),
        _published_of(text, shown),
    )


def load_published(home: Path) -> frozenset[QuestionType]:
    """Return the question types whose certificates the user wants published into projects; all by default.

    Only the user's file is read: a project cannot keep its certificates out of the repository.

    Args:
        home: `paths.home()`.

    Raises:
        DefinitionError: The file cannot be read, or contains an invalid setting.
    """
    shown = str(home / PERSONS_FILE)
    text = _text_of(home / PERSONS_FILE, shown, is_persons=True)
    read_rules(text, shown, RuleSource.PERSON)
    return _published_of(text, shown)


def load_witnesses(home: Path, root: Path) -> tuple[str, ...]:
    """Return the keys of the witnesses that the user and the project demand.

    A project's file only adds to the user's: a verification then demands more.

    Args:
        home: `paths.home()`.
        root: Folder of the project.

    Raises:
        DefinitionError: A file cannot be read, or contains an invalid setting.
    """
    found: list[str] = []
    for place, shown, source in (
        (home / PERSONS_FILE, str(home / PERSONS_FILE), RuleSource.PERSON),
        (root / PROJECT_FILE, PROJECT_FILE, RuleSource.PROJECT),
    ):
        text = _text_of(place, shown, is_persons=source is RuleSource.PERSON)
        read_rules(text, shown, source)
        found += _witnesses_of(text, shown)
    return tuple(dict.fromkeys(found))


def _witnesses_of(text: str, shown: str) -> list[str]:
    """Return the witnesses under [verify] in a parsed text."""
    table = tomllib.loads(text).get(VERIFY, {})
    if not isinstance(table, dict):
        refuse(shown, line_of(text, VERIFY, 0), "verify must be a table", _NAME_WITNESSES)
    for name in table:
        if name != _WITNESSES:
            refuse(shown, line_of(text, name, 0), f"unknown setting {name[:60]!r} in [verify]", _NAME_WITNESSES)
    keys = table.get(_WITNESSES, [])
    if not isinstance(keys, list) or len(keys) > _MOST_WITNESSES or not all(map(_is_line, keys)):
        problem = f"{_WITNESSES} must be a list of at most {_MOST_WITNESSES} keys"
        refuse(shown, line_of(text, _WITNESSES, 0), problem, _NAME_WITNESSES)
    return keys


def _published_of(text: str, shown: str) -> frozenset[QuestionType]:
    """Return the question types under [publish] in a parsed text."""
    table = tomllib.loads(text).get(_PUBLISH, {})
    if not isinstance(table, dict):
        refuse(shown, line_of(text, _PUBLISH, 0), "publish must be a table", _NAME_TYPES)
    for name in table:
        if name != _QUESTION_TYPES:
            refuse(shown, line_of(text, name, 0), f"unknown setting {name[:60]!r} in [publish]", _NAME_TYPES)
    types = table.get(_QUESTION_TYPES, list(QuestionType))
    if not isinstance(types, list) or not types or not all(each in tuple(QuestionType) for each in types):
        problem = f"{_QUESTION_TYPES} must be a list of {', '.join(QuestionType)}"
        refuse(shown, line_of(text, _QUESTION_TYPES, 0), problem, _NAME_TYPES)
    return frozenset(map(QuestionType, types))


def read_rules(text: str, shown: str, source: RuleSource) -> tuple[PermissionRule, ...]:
    """Parse the rules of a settings file.

    Args:
        text: Content of the file.
        shown: Name of the file in errors.
        source: Source of the rules.

    Raises:
        DefinitionError: The text is not TOML, or contains an invalid setting.
    """
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = _TOML_LINE.search(str(error))
        # The other position that tomllib reports is the end of the document.
        line = int(found.group(1)) if found else text.count("\n") + 1
        raise DefinitionError(shown, f"not TOML: {_problem_of(error)}", remedy=_LOOK, line=line) from None
    is_persons = source is RuleSource.PERSON
    known = ("rule", MODELS, MODEL, _PUBLISH, VERIFY) if is_persons else ("rule", MODELS, VERIFY)
    for name in table:
        if name not in known:
            remedy = (
                "remove it; supported are [[rule]], [models], [[model]], [publish] and [verify]"
                if is_persons
                else "remove it; supported are [[rule]], [models.activity.NAME] and [verify]"
            )
            refuse(shown, line_of(text, name, 0), f"unknown setting {name[:60]!r}", remedy)
    rows = table.get("rule", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        refuse(shown, line_of(text, "rule", 0), "rules must be tables", "write [[rule]] above each rule")
    if len(rows) > _MOST_RULES:
        refuse(
            shown, None, f"{len(rows)} rules; the maximum is {_MOST_RULES}", "combine rules with a wildcard such as *"
        )
    starts = [found.start() for found in _HEADER.finditer(text)]
    # Rules may also be written as one list: then the line of the list is reported.
    begins = starts if len(starts) == len(rows) else [0] * len(rows)
    return tuple(_Row(row, text, begin, shown).rule(source) for row, begin in zip(rows, begins, strict=True))


def _problem_of(error: Exception) -> str:
    return "nested too deep" if isinstance(error, RecursionError) else str(error)


def _text_of(place: Path, shown: str, *, is_persons: bool) -> str:
    try:
        # A project's file is not read through a link, which could point to any file of this machine.
        found = read_plain(place, _MOST_BYTES, follow=is_persons)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise DefinitionError(
            shown, f"file cannot be read: {why}", remedy="make it a regular file, or remove it"
        ) from None
    if found is None:
        refuse(shown, None, "not a regular file", "make it one, or remove it")
    if len(found.data) > _MOST_BYTES:
        refuse(shown, None, f"file has more than {_MOST_BYTES} bytes", "keep only settings in it")
    if is_persons and found.status.st_mode & _OTHERS_WRITE:
        refuse(
            shown, None, "file is writable by other users; refusing to read permission rules", f"chmod go-w '{shown}'"
        )
    try:
        return found.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = found.data.count(b"\n", 0, error.start) + 1
        raise DefinitionError(shown, "file is not UTF-8", remedy="save it as UTF-8", line=line) from None


class _Row:
    """Parser of one [[rule]] table that refuses unknown members."""

    def __init__(self, row: dict[str, Any], text: str, begin: int, shown: str) -> None:
        self.row = row
        self.text = text
        self.begin = begin
        self.shown = shown

    def rule(self, source: RuleSource) -> PermissionRule:
        for name in self.row:
            if name not in _MEMBERS:
                self._wrong(
                    name, f"unknown member {name[:60]!r} in a rule", f"remove it; supported are {', '.join(_MEMBERS)}"
                )
        return PermissionRule(
            tool=self._line("tool"),
            action=self._action(),
            arguments=self._arguments(),
            reason=self._line("reason") if "reason" in self.row else "",
            source=source,
        )

    def _action(self) -> PermissionDecision:
        said = self.row.get("action")
        if said not in tuple(PermissionDecision):
            self._wrong("action", "action must be one of three values", f"write one of {', '.join(PermissionDecision)}")
        return PermissionDecision(said)

    def _arguments(self) -> dict[str, str]:
        said = self.row.get("arguments", {})
        if not isinstance(said, dict) or (not said and "arguments" in self.row):
            self._wrong("arguments", "arguments must be a table", 'write arguments = {path = "docs/*"}')
        for name, pattern in said.items():
            if not _is_line(name) or not _is_line(pattern):
                self._wrong(
                    "arguments", f"the pattern of {str(name)[:60]!r} must be one line of text", 'write "docs/*"'
                )
        return dict(said)

    def _line(self, name: str) -> str:
        said = self.row.get(name)
        if not isinstance(said, str) or not _is_line(said):
            self._wrong(name, f"{name} must be one line of text", f'write {name} = "..." with up to {_MOST_CHARACTERS}')
        return said

    def _wrong(self, name: str, problem: str, remedy: str) -> NoReturn:
        line = line_of(self.text, name, self.begin) if name in self.row else self._begins()
        refuse(self.shown, line, problem, remedy)

    def _begins(self) -> int:
        return self.text.count("\n", 0, self.begin) + 1


def _is_line(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip()) and len(text) <= _MOST_CHARACTERS and text.isprintable()
