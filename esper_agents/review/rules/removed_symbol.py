"""ESP511: a name that current versions of torch no longer have."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.rule import INFERRED, SEEN, Rule
from esper_agents.review.symbols import uses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.symbols import SymbolUse
    from esper_agents.review.tables import FileTables


class RemovedSymbol(Rule):
    """A function, module or argument that the versions of torch in question no longer have.

    ## Why it costs
    The import or the call fails on the first machine with a newer torch, often long after the code was written, and
    sometimes only at the end of a run. A few names are still there and do nothing: `Variable(x, volatile=True)`
    records gradients like any other tensor.

    ## When it is right
    The project requires a torch that has the name: pin it in `pyproject.toml`, `setup.cfg`, `setup.py`,
    `requirements.txt` or `environment.yml`, and nothing is reported. Uses under a test of the version, under `hasattr`
    and in a `try` for a missing name are left alone; a `try` for `RuntimeError` is for numbers that do not work out.
    Where no settings say which torch is meant, it is a warning; where they allow a version without the name, it is
    critical.

    ## Sources
    The sources and release notes of torch from 1.12 to 2.13; each name's own is in `review/symbols.toml`.
    """

    code, name = "ESP511", "removed-symbol"
    severity, category = Severity.WARNING, Category.COMPILE
    bad = "import torch\n\nvalues, vectors = torch.symeig(matrix, eigenvectors=True)\n"
    good = "import torch\n\nvalues, vectors = torch.linalg.eigh(matrix)\n"

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the uses of names that are gone."""
        gone = [each for each in index.once(("symbols", file.path), lambda: uses(file, index)) if each.symbol.removed]
        asked = index.torch_asked_by(file) if gone else None
        for use in gone:
            if asked is None or asked.reaches(use.symbol.removed):
                yield self.hit(
                    use.node,
                    f"torch {use.symbol.removed} and later {_effect(use)}",
                    remedy=use.symbol.replacement(use.name),
                    severity=None if asked is None else Severity.CRITICAL,
                    confidence=Confidence.MODERATE if asked is None else Confidence.HIGH,
                    basis=f"{INFERRED}: the installed version decides" if asked is None else SEEN,
                )


def _effect(use: SymbolUse) -> str:
    symbol = use.symbol
    if symbol.keyword == "volatile":
        return "take `volatile` and record gradients all the same"
    if symbol.keyword:
        return f"refuse `{symbol.keyword}`: `{use.name}` does not take it"
    if symbol.absent:
        return f"refuse `{use.name}` without `{symbol.absent}` for real tensors"
    does = "fail on" if symbol.importable else "do not have"
    return f"{does} `{use.name}`{', so this import fails' if isinstance(use.node, ast.ImportFrom) else ''}"
