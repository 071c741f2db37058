"""Parse YAML front matter with every scalar as text, safe for untrusted input."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, Union

from esper_agents.agents.decoding import remove_unsafe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import yaml

# Scalars stay text, so that `name: no` is a name and no date or number can fail to parse.
FieldContent: TypeAlias = Union[str, "list[FieldContent]", "dict[str, FieldContent]"]

_MOST_DEPTH = 6
# Sufficient for any description; a longer text is read line by line, in linear time.
_MOST_CHARACTERS = 64_000
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))


class NotStrictError(ValueError):
    """Front matter is not YAML, or uses YAML features that no definition needs.

    Attributes:
        problem: The problem, as a continuation of "front matter".
        line: Line in the file, from 1.
    """

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


@dataclass(frozen=True, slots=True)
class FrontMatterField:
    """One field of the front matter.

    Attributes:
        content: Text, list or mapping; missing content is empty text.
        line: Line of its key in the file, from 1.
        is_bare: Whether it is text without YAML escapes, so that a backslash and an `n` are a mistake.
    """

    content: FieldContent
    line: int
    is_bare: bool = False


@dataclass(frozen=True, slots=True)
class YamlWarning:
    """A warning about front matter: line in the file, problem and remedy."""

    line: int
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class FrontMatterFields:
    """The parsed front matter.

    Attributes:
        fields: Fields by key as written; of equal keys, the first.
        oddities: The warnings.
    """

    fields: Mapping[str, FrontMatterField]
    oddities: tuple[YamlWarning, ...]


def read_strictly(text: str, first_line: int) -> FrontMatterFields:
    """Return the fields of front matter that consists of one YAML mapping.

    Args:
        text: The text between the two `---`.
        first_line: Its first line in the file.

    Raises:
        NotStrictError: It is not YAML, not one mapping, too long, nested too deeply, or uses aliases.
    """
    import yaml

    if len(text) > _MOST_CHARACTERS:
        raise NotStrictError("is too long to be read as YAML", first_line)

    # libyaml's parser, if PyYAML was built with it, is ten times faster.
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return _Reader(yaml.parse(text, Loader=loader), text.split("\n"), first_line).read()
    except NotStrictError:
        raise
    # PyYAML's own parser raises the other two for escapes beyond Unicode.
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        # The error position may be after the last line.
        line = min(mark.line, text.count("\n")) if mark else 0
        raise NotStrictError("is not valid YAML", first_line + line) from error


@dataclass
class _Reader:
    """Builder of plain values from parser events; aliases and tags never reach a constructor."""

    events: Iterator[yaml.Event]
    lines: Sequence[str]
    first_line: int
    remarks: list[YamlWarning] = field(default_factory=list)

    def read(self) -> FrontMatterFields:
        import yaml

        event = next(self.events)
        while isinstance(event, (yaml.StreamStartEvent, yaml.DocumentStartEvent)):
            event = next(self.events)
        if not isinstance(event, yaml.MappingStartEvent):
            raise NotStrictError("is not a list of `key: value` lines", self._line(event))
        fields = self._fields()
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                raise NotStrictError("contains a second document", self._line(event))
        return FrontMatterFields(fields, tuple(self.remarks))

    def _fields(self) -> dict[str, FrontMatterField]:
        import yaml

        fields: dict[str, FrontMatterField] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key, line = self._key(event), self._line(event)
            start = next(self.events)
            content = self._content(start, 1)
            is_bare = isinstance(start, yaml.ScalarEvent) and start.style != '"'
            if key == "description":
                self._look_for_comment(start)
            self._keep(fields, key, FrontMatterField(content, line, is_bare=is_bare))
        return fields

    def _keep(self, fields: dict[str, FrontMatterField], key: str, value: FrontMatterField) -> None:
        if key in fields:
            self._remark(value.line, f"second {key!r}; the first one is used", "delete one of the two")
        else:
            fields[key] = value

    def _look_for_comment(self, event: yaml.Event) -> None:
        mark = event.end_mark
        if mark and mark.line < len(self.lines) and self.lines[mark.line][mark.column :].lstrip().startswith("#"):
            line = self.first_line + mark.line
            self._remark(line, "the description ends at ` #`, where YAML begins a comment", "put it in a `>-` block")

    def _content(self, event: yaml.Event, depth: int) -> FieldContent:
        import yaml

        if depth > _MOST_DEPTH:
            raise NotStrictError("is nested too deeply", self._line(event))
        if isinstance(event, yaml.NodeEvent) and getattr(event, "tag", None) not in (None, "!"):
            self._remark(self._line(event), "a YAML tag was ignored", "delete the word that starts with `!`")
        if isinstance(event, yaml.ScalarEvent):
            return "" if event.value in _NULLS and not event.style else self._text(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(depth)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(depth)
        raise NotStrictError("uses a YAML alias", self._line(event))

    def _list(self, depth: int) -> list[FieldContent]:
        import yaml

        items: list[FieldContent] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self._content(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, FieldContent]:
        import yaml

        items: dict[str, FieldContent] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key, line = self._key(event), self._line(event)
            content = self._content(next(self.events), depth + 1)
            if key in items:
                self._remark(line, f"second {key!r}; the first one is used", "delete one of the two")
            items.setdefault(key, content)
        return items

    def _key(self, event: yaml.Event) -> str:
        import yaml

        if not isinstance(event, yaml.ScalarEvent):
            raise NotStrictError("has a key that is not a word", self._line(event))
        return self._text(event)

    def _text(self, event: yaml.ScalarEvent) -> str:
        # Escapes such as `\e` could bring back characters that were removed from the text of the file.
        text = remove_unsafe(event.value)
        if text != event.value:
            self._remark(self._line(event), "control or invisible characters were removed", "delete their escapes")
        return text

    def _line(self, event: yaml.Event) -> int:
        return self.first_line + (event.start_mark.line if event.start_mark else 0)

    def _remark(self, line: int, problem: str, remedy: str) -> None:
        self.remarks.append(YamlWarning(line, problem, remedy))
