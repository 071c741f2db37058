"""Baseline files: accepted diagnostics of a project by fingerprint, in a readable format."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.errors import InputFileError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from esper_agents.domain.finding import Diagnostic

_FORMAT = 1
_LARGEST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, order=True)
class BaselineEntry:
    """One accepted diagnostic in a baseline file.

    Attributes:
        path: File, relative to the project.
        rule: Code of the rule.
        excerpt: Source line, for readers.
        fingerprint: Fingerprint that identifies the diagnostic.
    """

    path: str
    rule: str
    excerpt: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """Diagnostics compared with a baseline file.

    Attributes:
        new: Diagnostics that are not in the baseline file.
        known: Diagnostics that are in the baseline file.
        stale: Entries without a diagnostic, because it was fixed or its line changed.
    """

    new: tuple[Diagnostic, ...]
    known: tuple[Diagnostic, ...]
    stale: tuple[BaselineEntry, ...]


def apply_baseline(
    claims: Iterable[Diagnostic],
    baseline: Collection[BaselineEntry],
    *,
    examined: Collection[str],
    rules: Collection[str],
    root: Path,
) -> BaselineComparison:
    """Compare diagnostics with the entries of a baseline file.

    Args:
        claims: Diagnostics of a review.
        baseline: Accepted diagnostics.
        examined: Files covered by the review; an entry of another file is stale only if that file no longer exists.
        rules: Codes of the rules that ran; entries of other rules are ignored.
        root: The project's folder.
    """
    known_as = {each.fingerprint for each in baseline}
    claims = tuple(claims)
    found = {claim.fingerprint for claim in claims}
    stale = sorted(
        each
        for each in baseline
        if each.fingerprint not in found
        and each.rule in rules
        and (each.path in examined or not (root / each.path).exists())
    )
    return BaselineComparison(
        tuple(claim for claim in claims if claim.fingerprint not in known_as),
        tuple(claim for claim in claims if claim.fingerprint in known_as),
        tuple(stale),
    )


def dump_baseline(claims: Iterable[Diagnostic]) -> str:
    """Return a baseline file for diagnostics; their order does not matter."""
    entries = sorted(
        {
            BaselineEntry(claim.location.path, claim.rule, " ".join(claim.excerpt.split()), claim.fingerprint)
            for claim in claims
        }
    )
    findings = [
        {"path": entry.path, "rule": entry.rule, "excerpt": entry.excerpt, "fingerprint": entry.fingerprint}
        for entry in entries
    ]
    return json.dumps({"format": _FORMAT, "findings": findings}, indent=1, ensure_ascii=True) + "\n"


def save_baseline(file: Path, claims: Iterable[Diagnostic]) -> None:
    """Write a baseline file for diagnostics atomically.

    Raises:
        OSError: The file cannot be written.
    """
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(dump_baseline(claims).encode())
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(stream.fileno(), 0o666 & ~mask)
        Path(name).replace(file)
    finally:
        Path(name).unlink(missing_ok=True)


def load(file: Path) -> frozenset[BaselineEntry]:
    """Return the entries of a baseline file.

    Raises:
        InputFileError: The file does not exist or is not a valid baseline.
    """
    remedy = f"write one: esper review --write-baseline {file}"
    try:
        if file.stat().st_size > _LARGEST_BYTES:
            raise InputFileError(str(file), "too large for a baseline", remedy=remedy)
        held = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputFileError(str(file), f"the baseline cannot be read, {error.strerror}", remedy=remedy) from error
    except (ValueError, RecursionError) as error:
        raise InputFileError(str(file), "the baseline is not valid JSON", remedy=remedy) from error
    if not isinstance(held, dict) or held.get("format") != _FORMAT or not isinstance(held.get("findings"), list):
        raise InputFileError(str(file), f"not a baseline of format {_FORMAT}", remedy=remedy)
    return frozenset(_entry(file, each) for each in held["findings"])


def _entry(file: Path, held: object) -> BaselineEntry:
    texts = [held.get(name) for name in ("path", "rule", "excerpt", "fingerprint")] if isinstance(held, dict) else []
    match texts:
        case [str() as path, str() as rule, str() as excerpt, str() as fingerprint]:
            return BaselineEntry(path, rule, excerpt, fingerprint)
        case _:
            raise InputFileError(
                str(file),
                "an entry of the baseline lacks its path, rule, excerpt or fingerprint",
                remedy=f"write a new one: esper review --write-baseline {file}",
            )
