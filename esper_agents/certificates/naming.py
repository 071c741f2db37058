"""What a certificate's view is called as a file, and what stands for the judged paths in that name."""

from __future__ import annotations

import re
import unicodedata
from hashlib import sha256
from itertools import takewhile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from esper_agents.domain.certificate import Certificate

LONGEST_SLUG = 60
NO_PATHS = "project"
_DIGEST_LENGTH = 8
_UNFIT = re.compile(r"[^a-z0-9]+")
# Names that Windows keeps for devices; a repository with such a file cannot be checked out there.
_RESERVED = frozenset(
    ("con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10)))
)


def slug(text: str, *, fallback: str = NO_PATHS) -> str:
    """Return text as a part of a file name: lower-case ASCII letters, digits and single `_`, 1 to 60 characters.

    Where nothing of the text can be kept, a short digest stands for it, so that different texts keep different names;
    the end of a long text is kept, with a short digest of all of it.

    Args:
        text: Any text.
        fallback: What stands for text that is empty; a slug already.
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
    """Return what stands for the judged paths: `examples_train` for one, `examples_3_files` for several.

    Args:
        paths: Relative to the project, with forward slashes; may be empty.
    """
    if not paths:
        return NO_PATHS
    if len(paths) == 1:
        path = PurePosixPath(paths[0])
        return slug(str(path.with_suffix("")) if path.stem else str(path))
    folders = [PurePosixPath(path).parent.parts for path in paths]
    shared = takewhile(lambda parts: len(set(parts)) == 1, zip(*folders, strict=False))
    return slug("_".join((*(parts[0] for parts in shared), str(len(paths)), "files")))


def view_name(certificate: Certificate, taken: Collection[str] = ()) -> str:
    """Return `{descriptor}_{component}_{YYYYMMDD_HHMMSS}.md`.

    The same certificate has the same name at any time, unless the name is taken by another one of the same second: then
    the end of the certificate's identifier follows the time.

    Args:
        certificate: The certificate.
        taken: Names of other certificates' views in the same folder.
    """
    time = re.sub(r"[^0-9T]", "", certificate.issued_at[:19]).replace("T", "_")
    descriptor = slug(certificate.descriptor, fallback="certificate")
    stem = f"{descriptor}_{slug(certificate.component)}_{time}"
    number = certificate.id.rpartition("_")[2]
    names = (f"{stem}.md", f"{stem}_{number[-_DIGEST_LENGTH:]}.md")
    return next((name for name in names if name not in taken), f"{stem}_{number}.md")
