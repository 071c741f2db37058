"""Parts of a review with the contents of their files, for processes that do not have the project."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.file_bundle import BundledFile, write_files
from esper_agents.review.source import LARGEST_NOTEBOOK_BYTES, Unreadable, read_content
from esper_agents.review.versions import settings_around

if TYPE_CHECKING:
    from esper_agents.domain.evidence import SourceFile
    from esper_agents.domain.finding import Diagnostic
    from esper_agents.review.report import FileSize, SuppressedDiagnostic


@dataclass(frozen=True, slots=True)
class PortableSource:
    """A file to review.

    Attributes:
        path: Path to report.
        content: Its bytes.
        is_explicit: Whether the user named the file itself.
    """

    path: str
    content: bytes
    is_explicit: bool


@dataclass(frozen=True, slots=True)
class PortablePart:
    """Files that are reviewed together.

    Attributes:
        sources: The files.
        settings: Settings files of the project that may apply to them.
        rules: Codes of the rules to run.
        program: Digest of the code of the review that divided the files.
    """

    sources: tuple[PortableSource, ...]
    settings: tuple[BundledFile, ...]
    rules: tuple[str, ...]
    program: str


@dataclass(frozen=True, slots=True)
class ReviewedPart:
    """Results for the files of one part; see `ReviewReport` for the attributes, which are not sorted here."""

    claims: tuple[Diagnostic, ...]
    examined: tuple[SourceFile, ...]
    unreadable: tuple[Unreadable, ...]
    generated: tuple[str, ...]
    silenced: tuple[SuppressedDiagnostic, ...]
    sizes: tuple[FileSize, ...]
    suppressed: int


# Returns the reviews of parts, in their order.
PartReviewer: TypeAlias = Callable[[Iterable[PortablePart]], Iterable[ReviewedPart]]


def settings_of(root: Path, paths: Iterable[str]) -> tuple[BundledFile, ...]:
    """Return the settings files that apply to some files of a project, with their contents.

    Args:
        root: The project's folder.
        paths: The files, relative to it.
    """
    found = {}
    for file in settings_around(root, paths):
        content = read_content(file, file.name)
        if isinstance(content, bytes) and len(content) <= LARGEST_NOTEBOOK_BYTES:
            path = file.relative_to(root).as_posix()
            found[path] = BundledFile(path, content)
    return tuple(found.values())


@contextmanager
def settings_folder(settings: Iterable[BundledFile]) -> Iterator[Path]:
    """Yield a private folder that contains the settings files and nothing else.

    Raises:
        IntegrityError: A path leads out of the folder.
    """
    with TemporaryDirectory(prefix="esper-review-") as name:
        folder = Path(name).resolve()
        write_files(folder, settings)
        yield folder
