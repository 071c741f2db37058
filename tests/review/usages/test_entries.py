"""Tests of `esper_agents.review.usages.entries`: every entry's examples have the verdicts that they name."""

from __future__ import annotations

import inspect as introspection

import pytest

from esper_agents.requests.parsing import parse_request
from esper_agents.review.index import ProjectIndex
from esper_agents.review.parsing import tables_of
from esper_agents.review.source import from_bytes
from esper_agents.review.usages.answers import answer_usage
from esper_agents.review.usages.entries import UsageVerdict, usage_entries
from esper_agents.review.usages.registry import conditions

ENTRIES = usage_entries()
EXAMPLES = [(name, number) for name, entry in ENTRIES.items() for number in range(len(entry.examples))]


@pytest.mark.parametrize(("name", "number"), EXAMPLES)
def test_a_question_is_about_its_entry_and_has_the_verdict_of_the_example(name, number) -> None:
    example = ENTRIES[name].examples[number]
    request = parse_request(example.question)
    assert name in {usage.name for usage in request.usages}
    statements = {each.kind: (each.value, each.text) for each in request.statements}
    file = tables_of(from_bytes(example.code.lstrip("\n").encode(), "example.py"))
    line = request.usages[0].line
    answers = list(answer_usage(ENTRIES[name], [file], ProjectIndex([file]), line=line, statements=statements))
    assert answers, "no line of the example is about the entry"
    assert answers[0].verdict is example.verdict, answers[0].text
    assert example.says in answers[0].text
    assert "{" not in answers[0].text.replace(answers[0].site.code, "")


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=lambda entry: entry.name)
def test_an_entry_has_decided_and_undecided_examples_and_existing_conditions(entry) -> None:
    verdicts = {example.verdict for example in entry.examples}
    assert verdicts - {UsageVerdict.UNDECIDED}
    assert UsageVerdict.UNDECIDED in verdicts
    assert entry.source.startswith("https://")
    assert entry.version
    assert entry.does.endswith(".")
    assert entry.tell.endswith((".", "`"))
    for case in entry.cases:
        assert case.when, "a case without a condition describes and answers nothing"
        assert case.verdict is not UsageVerdict.UNDECIDED
        assert not case.answer.endswith(".")
        for text in case.when:
            name, *words = text.removeprefix("not ").split()
            introspection.signature(conditions()[name]).bind(None, *words)
