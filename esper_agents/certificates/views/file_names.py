"""File and folder names of published certificates, derived from the certificates alone."""

from __future__ import annotations

import re
import unicodedata
from hashlib import sha256
from itertools import takewhile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.certificate import Certificate

LONGEST_SLUG = 60
NO_PATHS = "project"
_DIGEST_LENGTH = 8
# The last 12 digits of an identifier are 48 random bits; its first 12 are the time. Users may search by either.
_DIGITS = 12
_UNFIT = re.compile(r"[^a-z0-9]+")
_UNFIT_IN_FOLDER = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_FOLDER = 100
# Device names reserved by Windows; a repository with such a file cannot be checked out there.
_RESERVED = frozenset(
    ("con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10)))
)


def slugify(text: str, *, fallback: str = NO_PATHS) -> str:
    """Return text as a part of a file name: lower-case ASCII letters, digits and single `_`, 1 to 60 characters.

    If no character of the text can be kept, a short digest replaces it, so that different texts keep different names;
    the end of a long text is kept, with a short digest of the whole.

    Args:
        text: Any text.
        fallback: Slug for an empty text.
    """
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    kept = _UNFIT.sub("_", ascii_text.lower()).strip("_")
    if not kept and not text.strip("/. "):
        return fallback
    short = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    if not kept:
        return f"{fallback}_{short}"
    if len(kept) > LONGEST_SLUG:
        return f"{kept[-(LONGEST_SLUG - _DIGEST_LENGTH - 1) :].strip('_')}_{short}"
    return f"{kept}_" if kept in _RESERVED else kept


def component_of(paths: Sequence[str]) -> str:
    """Return the component slug of the given paths: `examples_train` for one, `examples_3_files` for several.

    Args:
        paths: Relative to the project, with forward slashes; may be empty.
    """
    if not paths:
        return NO_PATHS
    if len(paths) == 1:
        path = PurePosixPath(paths[0])
        return slugify(str(path.with_suffix("")) if path.stem else str(path))
    folders = [PurePosixPath(path).parent.parts for path in paths]
    shared = takewhile(lambda parts: len(set(parts)) == 1, zip(*folders, strict=False))
    return slugify("_".join((*(parts[0] for parts in shared), str(len(paths)), "files")))


def view_name(certificate: Certificate) -> str:
    """Return the name of a certificate's Markdown view: `{descriptor}_{component}_{YYYYMMDD_HHMMSS}_{digits}.md`.

    The digits are the random end of the certificate's identifier, so that certificates of one second differ. The name
    depends on the certificate alone.
    """
    return view_names(certificate)[0]


def view_names(certificate: Certificate) -> tuple[str, ...]:
    """Return the possible names of a certificate at issue: `view_name`, then the one with all digits.

    The second is used if another certificate of the project has the first.
    """
    stem, digits = _stem(certificate), _digits(certificate)
    return f"{stem}_{digits[-_DIGITS:]}.md", f"{stem}_{digits}.md"


def accepted_view_names(certificate: Certificate) -> tuple[str, ...]:
    """Return every name under which a certificate may be published: those of `view_names`, and those of version 0.1.0.

    Version 0.1.0 added eight or all digits after the time only if the name without them was taken.
    """
    eight = _digits(certificate)[-_DIGEST_LENGTH:]
    return *view_names(certificate), short_view_name(certificate), f"{_stem(certificate)}_{eight}.md"


def short_view_name(certificate: Certificate) -> str:
    """Return the name without digits, which version 0.1.0 used if it was free."""
    return f"{_stem(certificate)}.md"


def agent_folder(agent: str) -> str:
    """Return the folder name in which an agent's documents are published: one plain path component."""
    return _UNFIT_IN_FOLDER.sub("_", agent)[:_LONGEST_FOLDER].strip(".") or "_"


def _stem(certificate: Certificate) -> str:
    time = re.sub(r"[^0-9T]", "", certificate.issued_at[:19]).replace("T", "_")
    return f"{slugify(certificate.descriptor, fallback='certificate')}_{slugify(certificate.component)}_{time}"


def _digits(certificate: Certificate) -> str:
    return certificate.id.rpartition("_")[2]
