"""Answers to questions about one API or option, from the entries in `review/usages/`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.evidence import USAGE_QUESTIONS
from esper_agents.domain.finding import Category
from esper_agents.review.fact_query import Assessment, Fact, FactQuery, InspectionSubject, assess
from esper_agents.review.usages.answers import answer_usage
from esper_agents.review.usages.entries import UsageVerdict, usage_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import FileTables

_ASSESSMENTS = {
    UsageVerdict.NEEDED: Assessment.FINE,
    UsageVerdict.RIGHT: Assessment.FINE,
    UsageVerdict.NOT_NEEDED: Assessment.SHOULD_CHECK,
    UsageVerdict.NO_EFFECT: Assessment.SHOULD_CHECK,
    UsageVerdict.STATED: Assessment.DESCRIPTION,
    UsageVerdict.UNDECIDED: Assessment.OPEN,
}


class UsageQuestions(FactQuery):
    """Whether an API or option that a question names is needed, has an effect or is right at each of its places."""

    name = USAGE_QUESTIONS
    is_ordered = True
    follows_names = True
    category = Category.CORRECTNESS
    bad = (
        "import torch\n\n\ndef step(model, x, optimizer):\n    loss = model(x).sum()\n"
        "    loss.backward(retain_graph=True)\n    optimizer.step()\n"
    )
    good = "import torch\n\n\ndef step(model, x, optimizer):\n    loss = model(x).sum()\n    optimizer.step()\n"
    asked = InspectionSubject(usages=("retain-graph",))

    def answers(self, subject: InspectionSubject) -> bool:
        """Return whether the subject names an entry."""
        return bool(subject.usages)

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the answers at the places of the entries; an entry is given as `NAME` or `NAME:LINE`."""
        statements = {kind: (value, words) for kind, value, words in map(_statement, subject.statements)}
        for usage in subject.usages:
            name, _, line = usage.partition(":")
            entry, number = usage_entries()[name], int(line or 0)
            for each in answer_usage(entry, files, index, line=number, statements=statements):
                # What the code shows to be wrong rests on no assumption.
                is_wrong = each.verdict is UsageVerdict.WRONG
                assessment = assess(each.text, "")[0] if is_wrong else _ASSESSMENTS[each.verdict]
                yield Fact(assessment, each.site.file.path, each.site.line, each.text, each.remedy, each.site.last_line)


def _statement(text: str) -> tuple[str, str, str]:
    """Return the kind, the value and the words of a statement in the form `KIND=VALUE (WORDS)`."""
    kind, _, rest = text.partition("=")
    value, _, words = rest.partition(" (")
    return kind, value, words.removesuffix(")") or value
