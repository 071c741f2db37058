"""Splits of rows into training and evaluation data, and what is computed from all rows before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.fact_query import Assessment, FactQuery

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import FileTables

_SPLITTING = ("torch.utils.data.random_split", "sklearn.model_selection.train_test_split")


class SplitLeakage(FactQuery):
    """Calls that split rows at random, and statistics of all rows that are computed before a split."""

    name = "split-leakage"
    topics = ("data leakage",)
    claim = "rows of the evaluation data influence the training"
    refutes = False
    category = Category.SILENT_CORRECTNESS
    rules = ("ESP229", "ESP233")
    unseen = "duplicates, and rows of one group, person or time in both parts: only the data shows them"
    bad = (
        "from torch.utils.data import random_split\n\n\n"
        "def parts(rows):\n"
        "    rows = (rows - rows.mean(0)) / rows.std(0)\n"
        "    return random_split(rows, [80, 20])\n"
    )
    good = "def parts(rows, order):\n    train = rows[order[:80]]\n    return (rows - train.mean(0)) / train.std(0)\n"

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the calls that split rows; the rules report what is computed before."""
        for file in files:
            for call in file.calls_to(*_SPLITTING):
                option = "random_state" if call.tail == "train_test_split" else "generator"
                is_open = call.has_splat() or call.argument(-1, option) is not None
                text = f"`{call.tail}` splits rows at random"
                more = "" if is_open else f" without `{option}`: another run trains on rows that this one evaluates"
                yield self.fact(file, call.node, Assessment.DESCRIPTION, text + more)
