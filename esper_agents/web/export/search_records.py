"""Index of the exported list of certificates, as scripts that work without a server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from esper_agents.errors import EsperError
from esper_agents.web.pages.certificates import standings_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from esper_agents.api import CertificateSummary, OpenProject
    from esper_agents.domain.certificate import Certificate

# A browser reads a script of so many certificates in less than a second.
MOST_IN_SCRIPT = 10_000
_AT_ONCE = 500
_LONGEST_TEXT = 400


class SearchScript:
    """Records of certificates, newest first, with each repeated text once."""

    def __init__(self, number: int, key_names: Mapping[str, str]) -> None:
        """Have no records yet.

        Args:
            number: Number of the script, from 1.
            key_names: Owners of keys by fingerprint.
        """
        self.name = f"static/certificates-{number}.js"
        self._key_names = key_names
        self._texts: dict[str, int] = {}
        self._rows: list[list[Any]] = []

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._rows)

    def add(
        self, entry: CertificateSummary, issued: Certificate | None, key_id: str, standing: str, change: str
    ) -> None:
        """Add a certificate.

        Args:
            entry: The certificate.
            issued: Its content; None if it was modified.
            key_id: Fingerprint of its key; empty if unknown.
            standing: What ended it or overrides its status; empty if nothing does.
            change: Change that it is about; empty if it is about files.
        """
        findings = issued.findings if issued else ()
        said = [issued.verdict.rationale if issued else "", *(finding.claim.message for finding in findings)]
        texts = dict.fromkeys(text[:_LONGEST_TEXT] for text in said if text)
        self._rows.append(
            [
                entry.id,
                entry.issued_at,
                self._text(str(entry.status)),
                self._text(entry.agent),
                self._text(entry.component),
                self._text(entry.request),
                self._text(entry.commit),
                self._text(key_id),
                self._text(self._key_names.get(key_id, key_id)),
                int(entry.is_trusted),
                self._text(str(entry.origin)),
                self._text(standing),
                self._text(change),
                [self._text(rule) for rule in dict.fromkeys(finding.claim.rule for finding in findings)],
                [self._text(path) for path in dict.fromkeys(file.path for file in (issued.examined if issued else ()))],
                [self._text(text) for text in texts],
                self._text(str(entry.kind)),
            ]
        )

    def content(self) -> bytes:
        """Return the script: one call with plain data."""
        data = json.dumps({"texts": list(self._texts), "rows": self._rows}, separators=(",", ":"))
        return f"window.esperCertificates({data});\n".encode("ascii")

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))


async def search_scripts(project: OpenProject) -> AsyncIterator[tuple[SearchScript, Sequence[CertificateSummary]]]:
    """Yield the scripts with the index of all certificates of a project, each with its certificates, newest first."""
    names = project.browsing.key_names()
    script, entries, number, before = SearchScript(1, names), list[Any](), 1, ""
    while page := await project.certificates.list(before=before, limit=_AT_ONCE):
        standings, changes = await standings_of(project, page), await project.certificates.changes(page)
        keys = await project.browsing.keys_of(page)
        for entry in page:
            issued = await _content(project, entry)
            script.add(entry, issued, keys.get(entry.id, ""), standings.get(entry.id, ""), changes.get(entry.id, ""))
            entries.append(entry)
            if len(script) == MOST_IN_SCRIPT:
                yield script, entries
                number += 1
                script, entries = SearchScript(number, names), []
        before = page[-1].id
    if len(script) or number == 1:
        yield script, entries


async def _content(project: OpenProject, entry: CertificateSummary) -> Certificate | None:
    try:
        return await project.certificates.read(entry.id)
    except EsperError:
        # The page of the certificate says what is wrong with it.
        return None
