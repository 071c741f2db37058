"""Convert front matter fields of any accepted form into typed values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.agents.definition_warnings import DefinitionWarnings, shorten
from esper_agents.domain.agent import Example

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from esper_agents.agents.strict_yaml import FieldContent, FrontMatterField

_OURS = frozenset(("name", "description", "model", "tools", "skills", "domain", "handles", "declines"))
_KNOWN = _OURS | {"hands_off_to", "examples", "disallowedtools"}
# Claude Code fields about display and execution there, without meaning here.
_WITHOUT_EFFECT = frozenset(("color", "background", "effort", "isolation", "maxturns", "memory", "initialprompt"))
_GRANTS = frozenset(("permissionmode", "mcpservers", "hooks"))
_ALIASES = {"allowed_tools": "tools", "allowedtools": "tools"}
_EVERY_TOOL = frozenset(("*", "all", "all tools", "inherit"))

_COMMA = re.compile(r",(?![^()]*\))")
_SPACE = re.compile(r"\s+(?![^()]*\))")
_YES = frozenset(("", "true", "yes", "on", "y", "1"))
_NO = frozenset(("false", "no", "off", "n", "0"))
_MOST_LISTED = 500
_LONGEST_LIST = 10_000


def one_line(text: str) -> str:
    """Return text with every run of white space replaced by one space."""
    return " ".join(text.split())


class FieldReader:
    """Reader of the front matter fields of one definition; it records warnings."""

    def __init__(self, fields: Mapping[str, FrontMatterField], notes: DefinitionWarnings) -> None:
        self._notes = notes
        self._fields: dict[str, FrontMatterField] = {}
        self._written: dict[str, str] = {}
        for written, field in fields.items():
            key = written.strip().lower().replace("-", "_")
            self._fields.setdefault(_ALIASES.get(key, key), field)
            self._written.setdefault(_ALIASES.get(key, key), written)
            if key in _ALIASES:
                notes.add(field.line, f"{written!r} is read as `tools`", "write `tools:`")

    def has(self, key: str) -> bool:
        """Return whether the front matter has the field, even if it is empty."""
        return key in self._fields

    def line(self, key: str) -> int:
        """Return the line number of the field in the file, or 1."""
        return self._fields[key].line if key in self._fields else 1

    def is_bare(self, key: str) -> bool:
        """Return whether the field is text in which a backslash and an `n` mean a line feed."""
        return key in self._fields and self._fields[key].is_bare

    def text(self, key: str) -> str:
        """Return the field as text; lists and mappings are joined, with a warning."""
        content: FieldContent = self._fields[key].content if key in self._fields else ""
        if isinstance(content, str):
            return content.strip()
        self._notes.add(self.line(key), f"`{key}` is not text", f"write `{key}:` followed by text")
        return "\n".join(_flat(content)).strip()

    def items(self, key: str, *, separator: re.Pattern[str] = re.compile(r"\n")) -> tuple[str, ...]:
        """Return the field as a list: a YAML list, or text split at the separator."""
        content: FieldContent = self._fields[key].content if key in self._fields else ""
        if isinstance(content, str):
            parts = [part.strip().removeprefix("- ").strip("\"'") for part in separator.split(content[:_LONGEST_LIST])]
        else:
            parts = list(_flat(content))
        plain = (one_line(part) for part in parts)
        return tuple(dict.fromkeys(part for part in plain if part))[:_MOST_LISTED]

    def tools(self) -> tuple[str, ...] | None:
        """Return the tools named by the definition, without those it forbids; None if it has no such field."""
        if not self.has("tools"):
            self._note_forbidden_without_tools()
            return None
        content = self._fields["tools"].content
        if isinstance(content, dict):
            return tuple(name for name, said in content.items() if str(said).strip().lower() not in _NO)
        has_spaces_only = isinstance(content, str) and "," not in content and "\n" not in content
        tools = self.items("tools", separator=_SPACE if has_spaces_only else re.compile(f"{_COMMA.pattern}|\n"))
        if one_line(str(content)).lower() in _EVERY_TOOL or tools == ("*",):
            self._notes.add(self.line("tools"), "`tools` names every tool", "delete the line")
            return None
        if not tools and isinstance(content, str):
            self._notes.add(self.line("tools"), "`tools` is empty, so it may use none", "name tools, or write `[]`")
        forbidden = frozenset(self.items("disallowedtools", separator=_COMMA))
        return tuple(tool for tool in tools if tool not in forbidden)

    def _note_forbidden_without_tools(self) -> None:
        if self.has("disallowedtools"):
            self._notes.add(
                self.line("disallowedtools"), "tools are forbidden and none are allowed", "list the allowed in `tools`"
            )

    def examples(self) -> tuple[Example, ...]:
        """Return the examples of the front matter; an example without text is omitted, with a warning."""
        content = self._fields["examples"].content
        written = content if isinstance(content, list) else [content]
        read = (self._example(each) for each in written[:_MOST_LISTED] if each)
        return tuple(example for example in read if example is not None)

    def _example(self, written: FieldContent) -> Example | None:
        parts = written if isinstance(written, dict) else {"text": written}
        text = parts.get("text", parts.get("user"))
        if not isinstance(text, str) or not text.strip():
            self._notes.add(self.line("examples"), f"an example has no text: {shorten(written)}", "give it `text:`")
            return None
        is_for, instead = str(parts.get("for", "")).strip().lower(), parts.get("instead", "")
        if is_for not in _YES | _NO:
            self._notes.add(self.line("examples"), f"`for` is {shorten(is_for)}", "write `for: true` or `for: false`")
        return Example(one_line(text), is_for not in _NO, one_line(instead) if isinstance(instead, str) else "")

    def note_unknown(self) -> None:
        """Record a warning for every unknown field."""
        for key, field in self._fields.items():
            if key in _GRANTS:
                self._notes.add(
                    field.line,
                    f"{shorten(self._written[key])} grants nothing here",
                    "delete it, or leave it for Claude Code",
                )
            elif key not in _KNOWN | _WITHOUT_EFFECT:
                self._notes.add(
                    field.line, f"unknown field {shorten(self._written[key])}", "correct its name or delete it"
                )


def _flat(content: FieldContent) -> Iterable[str]:
    """Yield all text inside nested lists and mappings, mappings as `key: value`."""
    if isinstance(content, str):
        return [content]
    if isinstance(content, list):
        return [text for item in content for text in _flat(item)]
    return [f"{key}: {' '.join(_flat(item))}" if item else key for key, item in content.items()]
