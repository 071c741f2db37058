"""Read an agent definition or Claude Code subagent file into `domain.agent.Agent`."""

from __future__ import annotations

import re
import unicodedata
from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.agents import example_parsing, scope_parsing
from esper_agents.agents.decoding import MAX_BYTES, decode
from esper_agents.agents.definition_warnings import DefinitionWarnings, shorten
from esper_agents.agents.front_matter import read_document
from esper_agents.agents.front_matter_fields import FieldReader, one_line
from esper_agents.domain.agent import Agent

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.agents.front_matter import FrontMatterDocument

_MOST_NAME_CHARACTERS = 64
_MOST_FOUND_CHARACTERS = 1_000
_LIST = re.compile(r"[,\n]")
_NOT_IN_NAME = re.compile(r"[^\w.-]+")
_DASHES = re.compile(r"-{2,}")
_RULE = re.compile(r"\s*([-*_=])(?:\s*\1){2,}\s*$")
_MODEL = re.compile(r"[\w.:/@\[\]-]{1,100}")
_MODEL_NAMES = frozenset(("opus", "sonnet", "haiku", "inherit"))
_HEADING = re.compile(r"#{1,6}\s+(.+)$")
_LITERAL_LINE_FEED = re.compile(r"\\r?\\n|\\n")
# Words of a name that state the role and not the subject.
_ROLE = re.compile(
    r"(?:agent|analyst|architect|debugger|developer|diagnostician|engineer|expert|helper|manager|reviewer|specialist"
    r"|tester|ultimate|writer)$"
)


def load_definition(path: Path, *, namespace: str = "") -> Agent:
    """Return the agent defined by a file.

    Args:
        path: The file. A symbolic link is followed; the caller decides which links are allowed.
        namespace: Prefix of the name, joined with a colon, such as `project`.

    Raises:
        DefinitionError: The file cannot be used: missing, binary, empty, too long, or without text.
    """
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise DefinitionWarnings(str(path)).refusal(reason, remedy="make it a readable file") from error
    return read_definition(raw, path=str(path), stem=path.stem, namespace=namespace)


def read_definition(raw: bytes, *, path: str, stem: str, namespace: str = "") -> Agent:
    """Return the agent defined by these bytes; see `load_definition`.

    Args:
        raw: The bytes of the file.
        path: Name of the file in messages and in the agent.
        stem: The agent's name if the text does not state one.
        namespace: Prefix of the name, joined with a colon.

    Raises:
        DefinitionError: The bytes cannot be used.
    """
    notes = DefinitionWarnings(path)
    document = read_document(decode(raw, notes), notes)
    fields, digest = FieldReader(document.fields, notes), sha256(raw).hexdigest()
    name = _name(fields, stem, digest, notes)
    description = read_description(fields, document, notes)
    if not document.body.strip():
        notes.add(1, "there are no instructions below the front matter", "describe what the agent does and how")
    scope = scope_parsing.read_scope(description, document.body)
    examples = (
        fields.examples() if fields.has("examples") else example_parsing.read_examples(description, document.body)
    )
    fields.note_unknown()
    return Agent(
        name=f"{namespace}:{name}" if namespace else name,
        description=description,
        model=_model(fields, notes),
        tools=fields.tools(),
        skills=fields.items("skills", separator=_LIST)
        if fields.has("skills")
        else scope_parsing.read_skills(document.body),
        domain=one_line(fields.text("domain")) or _domain(name),
        handles=fields.items("handles") if fields.has("handles") else scope.handles,
        declines=fields.items("declines")
        if fields.has("declines")
        else (*scope.declines, *example_parsing.read_passed_on(document.body)),
        hands_off_to=fields.items("hands_off_to", separator=_LIST)
        if fields.has("hands_off_to")
        else example_parsing.read_neighbours(name, document.body, examples),
        examples=examples,
        body=document.body,
        path=path,
        sha256=digest,
        oddities=notes.all(),
    )


def _name(fields: FieldReader, stem: str, digest: str, notes: DefinitionWarnings) -> str:
    written = one_line(fields.text("name"))
    if not written:
        notes.add(fields.line("name"), f"no name; using the file's name: {shorten(stem)}", "write `name:`")
    name = as_name(written) or as_name(stem) or f"agent-{digest[:8]}"
    if written and name != written:
        notes.add(fields.line("name"), f"name {shorten(written)} is read as {name!r}", f"write `name: {name}`")
    return name


def _model(fields: FieldReader, notes: DefinitionWarnings) -> str:
    written = one_line(fields.text("model"))
    if written.lower() in _MODEL_NAMES or not written:
        return written.lower() or "inherit"
    if _MODEL.fullmatch(written):
        return written
    notes.add(fields.line("model"), f"{shorten(written)} is not a model name", "write `model: inherit`")
    return "inherit"


def as_name(text: str) -> str:
    """Return a name that is safe as a file name and in a command: lower-case letters, digits, `-`, `_` and `.`."""
    plain = unicodedata.normalize("NFKC", text).lower()
    return _DASHES.sub("-", _NOT_IN_NAME.sub("-", plain)).strip("-._")[:_MOST_NAME_CHARACTERS].strip("-._")


def read_description(fields: FieldReader, document: FrontMatterDocument, notes: DefinitionWarnings) -> str:
    """Return the description of a file, or the first words of its body if there is no description field.

    Raises:
        DefinitionError: The file has neither.
    """
    written = fields.text("description")
    if fields.is_bare("description") and _LITERAL_LINE_FEED.search(written):
        notes.add(
            fields.line("description"), "description contains a literal `\\n`", "put it in a `|` block on several lines"
        )
        written = _LITERAL_LINE_FEED.sub("\n", written).strip()
    if written:
        return written
    found = _first_words(document.body)
    if not found:
        raise notes.refusal("has neither a description nor instructions", remedy="write `description:` and a body")
    notes.add(1, "no description; taken from the first lines of the body", "write `description:`")
    return found


def _first_words(body: str) -> str:
    """Return the first heading and the first paragraph of a body as one line."""
    heading, paragraph = "", list[str]()
    for line in body.split("\n"):
        match = _HEADING.match(line)
        if _RULE.match(line):
            continue
        if match and not heading and not paragraph:
            heading = match[1].strip().rstrip(".") + "."
        elif match or (paragraph and not line.strip()):
            break
        elif line.strip():
            paragraph.append(line)
    return one_line(" ".join((heading, *paragraph)))[:_MOST_FOUND_CHARACTERS]


def _domain(name: str) -> str:
    words = re.split(r"[-_.]", name)
    return " ".join(word for word in words if not _ROLE.match(word)) or name
