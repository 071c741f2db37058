"""Run the rule of `docs/semantic-model.md`, and check that its questions exist."""

import re
from pathlib import Path

from esper_agents.review.model.query import Run
from tests.review.model.test_interpreter import index_of

PAGE = (Path(__file__).parents[3] / "docs/semantic-model.md").read_text(encoding="utf-8")


def test_the_rule_of_the_page_reports_its_bad_example_alone():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {}
    exec(code, names)  # noqa: S102 - the page's own example
    rule = names["ModelRunsInTraining"]()
    lines = [[each.match.line for each in rule.ask(index_of({"a.py": text}))] for text in (rule.bad, rule.good)]
    assert lines == [[3], []]


def test_every_question_of_the_page_exists():
    questions = re.findall(r"^\| `run\.(\w+)", PAGE, re.MULTILINE)
    assert len(questions) == 11
    assert all(hasattr(Run, question) for question in questions)
