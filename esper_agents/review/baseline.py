"""Baseline files: accepted diagnostics of a project by fingerprint, in a readable format."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.errors import InputFileError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from esper_agents.domain.finding import Diagnostic

_FORMAT = 1
_LARGEST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, order=True)
class BaselineEntry:
    """One finding of a baseline.

    Attributes:
        path: The file, relative to the project.
        rule: The code of the rule.
        excerpt: The line, so that people see what it is about.
        fingerprint: What it is known by.
    """

    path: str
    rule: str
    excerpt: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """Claims held against a baseline.

    Attributes:
        new: The claims that it does not hold.
        known: Those that it holds.
        stale: Its entries that were looked for and not found: mended, or on a line that changed.
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
    """Hold claims against a baseline.

    Args:
        claims: What a review found.
        baseline: What is known.
        examined: The files that the review read; an entry of another file is stale only if the file is gone.
        rules: The codes of the rules that ran; entries of others are left alone.
        root: The project's folder.
    """
    known_as = {each.fingerprint for each in baseline}
    claims = tuple(claims)
    found = {each.fingerprint for each in claims}
    stale = sorted(
        each
        for each in baseline
        if each.fingerprint not in found
        and each.rule in rules
        and (each.path in examined or not (root / each.path).exists())
    )
    return BaselineComparison(
        tuple(each for each in claims if each.fingerprint not in known_as),
        tuple(each for each in claims if each.fingerprint in known_as),
        tuple(stale),
    )


def dump_baseline(claims: Iterable[Diagnostic]) -> str:
    """Return a baseline that holds claims, the same for the same claims in any order."""
    entries = sorted(
        {
            BaselineEntry(each.location.path, each.rule, " ".join(each.excerpt.split()), each.fingerprint)
            for each in claims
        }
    )
    findings = [
        {"path": each.path, "rule": each.rule, "excerpt": each.excerpt, "fingerprint": each.fingerprint}
        for each in entries
    ]
    return json.dumps({"format": _FORMAT, "findings": findings}, indent=1, ensure_ascii=True) + "\n"


def load(file: Path) -> frozenset[BaselineEntry]:
    """Return the entries of a baseline file.

    Raises:
        InputFileError: It is not there, or it is no baseline.
    """
    remedy = f"write one: esper review --write-baseline {file}"
    try:
        if file.stat().st_size > _LARGEST_BYTES:
            raise InputFileError(str(file), "too large for a baseline", remedy=remedy)
        held = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputFileError(str(file), f"the baseline cannot be read, {error.strerror}", remedy=remedy) from error
    except (ValueError, RecursionError) as error:
        raise InputFileError(str(file), "the baseline is no JSON", remedy=remedy) from error
    if not isinstance(held, dict) or held.get("format") != _FORMAT or not isinstance(held.get("findings"), list):
        raise InputFileError(str(file), f"no baseline of format {_FORMAT}", remedy=remedy)
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
                remedy="write it anew",
            )
