"""Match caveats of a model to the recorded findings that they are about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import UNCONFIRMED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from esper_agents.domain.finding import Finding

_WORD = re.compile(r"\w+")
_CODE = re.compile(r"`[^`]+`")
_PLACE = re.compile(r"[\w./-]+\.\w+:\d+")
_LINE = re.compile(r"\blines? (\d+)\b", re.IGNORECASE)
# So many words in a row are a quotation.
_QUOTED_WORDS = 5


def remarks_on(findings: Sequence[Finding], caveats: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the caveats about a finding that the program recorded, by fingerprint.

    A caveat is about a finding if it names its rule or its identifier, names its line first of all lines, quotes
    words of its message, or names code that no other message does.
    """
    recorded = {each.claim.fingerprint: each for each in findings if each.standing not in UNCONFIRMED}.values()
    remarks: dict[str, list[str]] = {}
    for caveat in caveats:
        for finding in _meant(list(recorded), caveat):
            remarks.setdefault(finding.claim.fingerprint, []).append(caveat)
    return {name: tuple(texts) for name, texts in remarks.items()}


def _meant(findings: Sequence[Finding], caveat: str) -> list[Finding]:
    if named := [each for each in findings if _is_named(each, caveat)]:
        return named
    quoted = _runs(caveat)
    if named := [each for each in findings if _runs(each.claim.message) & quoted]:
        return named
    words = set(_CODE.findall(caveat))
    named = [each for each in findings if set(_CODE.findall(each.claim.message)) & words]
    if len(named) == 1:
        return named
    is_one_file = len({each.claim.location.path for each in findings}) == 1
    lines = {int(number) for number in _LINE.findall(caveat)[:1]} if is_one_file else set()
    return [each for each in findings if each.claim.location.line in lines]


def _is_named(finding: Finding, caveat: str) -> bool:
    claim = finding.claim
    first = _PLACE.search(caveat)
    if first and first[0] == f"{claim.location.path}:{claim.location.line}":
        return True
    names = (finding.id, claim.rule, claim.name)
    return any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", caveat) for name in names if name)


def _runs(text: str) -> set[tuple[str, ...]]:
    words = [word.lower() for word in _WORD.findall(text)]
    return {tuple(words[at : at + _QUOTED_WORDS]) for at in range(len(words) - _QUOTED_WORDS + 1)}
