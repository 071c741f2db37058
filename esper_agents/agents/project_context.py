"""Project context files, such as `CLAUDE.md` and `CONTRIBUTING.md`: data, never permissions."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.agents.decoding import MAX_BYTES, decode
from esper_agents.agents.definition_warnings import DefinitionWarnings
from esper_agents.certificates.redaction import redacted
from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.domain.frame import ContextDocument
from esper_agents.errors import DefinitionError

if TYPE_CHECKING:
    from pathlib import Path

# The most important first: what is written for agents, then conventions, then the description of the project.
FILES = (
    "CLAUDE.md",
    "AGENTS.md",
    ".esper/project.md",
    "STYLE.md",
    "STYLEGUIDE.md",
    "CONTRIBUTING.md",
    "docs/CONTRIBUTING.md",
    ".github/CONTRIBUTING.md",
    "README.md",
)
MOST_CHARACTERS = 20_000
_MARKDOWN = ".md"


@dataclass(frozen=True, slots=True)
class ProjectContext:
    """The project context files of a project.

    Attributes:
        documents: The usable documents; of two with equal bytes, the first.
        refused: Errors for the others: links that leave the project, binary, too large or unreadable files.
    """

    documents: tuple[ContextDocument, ...]
    refused: tuple[DefinitionError, ...]


def project_context(root: Path) -> tuple[ContextDocument, ...]:
    """Return the project context documents for agents; see `read_context`."""
    return read_context(root).documents


def read_context(root: Path) -> ProjectContext:
    """Return the project context documents, and errors for those that cannot be used.

    Lines such as `@docs/style.md`, by which Claude Code includes further files, stay text. Secrets are removed. A text
    of more than 20,000 characters is truncated, with a remark at its end.

    Args:
        root: The project.
    """
    documents: dict[str, ContextDocument] = {}
    refused: list[DefinitionError] = []
    for name in FILES:
        try:
            found = _document(root, name)
        except DefinitionError as error:
            refused.append(error)
        else:
            if found is not None:
                documents.setdefault(found.sha256, found)
    return ProjectContext(tuple(documents.values()), tuple(refused))


def _document(root: Path, name: str) -> ContextDocument | None:
    """Return one document, or None if the file does not exist.

    Raises:
        DefinitionError: It cannot be used.
    """
    place, notes = root / name, DefinitionWarnings(name)
    try:
        # A link could point to a file with secrets, and the content is sent to a model.
        target = place.resolve()
        if not target.is_relative_to(root.resolve()):
            raise notes.refusal("is a link to a file outside the project", remedy="replace it with a copy")
        if target.suffix.casefold() != _MARKDOWN:
            raise notes.refusal("is a link to a file that is not Markdown", remedy="replace it with a copy")
        read = read_plain(place, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RuntimeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise notes.refusal(reason, remedy="make it a readable file") from error
    if read is None:
        raise notes.refusal("is not a regular file", remedy="replace it with a text file")
    if not read.data.strip():
        return None
    text = redacted(decode(read.data, notes)).value
    if len(text) > MOST_CHARACTERS:
        text = f"{text[:MOST_CHARACTERS]}\n(cut here: {len(text)} characters in all)"
    return ContextDocument(name, sha256(read.data).hexdigest(), text)
