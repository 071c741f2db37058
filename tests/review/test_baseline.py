"""Findings that a project lives with: known ones are left out, gone ones are named."""

from __future__ import annotations

import json

import pytest

from esper_agents.errors import InputFileError
from esper_agents.review.baseline import apply_baseline, dump_baseline, load
from esper_agents.review.engine import review_sources

LOOP = "for x in loader:\n    model(x).backward()\n    optimizer.step()\n"
LOAD = 'import torch\n\nstate = torch.load("a.pt", weights_only=False)\n'


def claims_of(**files):
    return review_sources({f"{name}.py": text for name, text in files.items()}).claims


def compared(claims, known, tmp_path, **more):
    file = tmp_path / "baseline.json"
    file.write_text(dump_baseline(known))
    options = {"examined": {"a.py", "b.py"}, "rules": {"ESP101", "ESP901"}, "root": tmp_path} | more
    return apply_baseline(claims, load(file), **options)


def test_what_is_known_is_left_out_and_what_is_new_stays(tmp_path):
    result = compared(claims_of(a=LOOP, b=LOAD), claims_of(a=LOOP), tmp_path)
    assert [claim.rule for claim in result.new] == ["ESP901"]
    assert [claim.rule for claim in result.known] == ["ESP101"]
    assert result.stale == ()


def test_a_known_finding_stays_known_when_its_line_moves(tmp_path):
    result = compared(claims_of(a="import os\n\n\n" + LOOP), claims_of(a=LOOP), tmp_path)
    assert result.new == ()


def test_one_more_of_the_same_is_new(tmp_path):
    assert len(compared(claims_of(a=LOOP + LOOP), claims_of(a=LOOP), tmp_path).new) == 1


def test_an_entry_that_nothing_answers_to_is_stale(tmp_path):
    result = compared((), claims_of(a=LOOP), tmp_path)
    assert [(entry.path, entry.rule, entry.excerpt) for entry in result.stale] == [
        ("a.py", "ESP101", "model(x).backward()")
    ]


@pytest.mark.parametrize("more", [{"examined": {"b.py"}}, {"rules": {"ESP901"}}])
def test_an_entry_that_was_not_looked_for_is_not_stale(tmp_path, more):
    (tmp_path / "a.py").write_text(LOOP)
    assert compared((), claims_of(a=LOOP), tmp_path, **more).stale == ()


def test_an_entry_of_a_file_that_is_gone_is_stale(tmp_path):
    assert len(compared((), claims_of(a=LOOP), tmp_path, examined={"b.py"}).stale) == 1


def test_the_file_is_the_same_for_the_same_findings_in_any_order():
    claims = claims_of(a=LOOP, b=LOAD)
    assert dump_baseline(claims) == dump_baseline(tuple(reversed(claims)))
    held = json.loads(dump_baseline(claims))
    assert [entry["path"] for entry in held["findings"]] == ["a.py", "b.py"]
    assert "line" not in held["findings"][0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "not a baseline of format 1"),
        ('{"format": 2, "findings": []}', "not a baseline of format 1"),
        ('{"format": 1, "findings": [{"path": "a.py"}]}', "lacks its path"),
        ('{"format": 1, "findings": [3]}', "lacks its path"),
    ],
)
def test_what_is_no_baseline_is_refused(tmp_path, text, problem):
    file = tmp_path / "baseline.json"
    file.write_text(text)
    with pytest.raises(InputFileError, match=problem):
        load(file)


def test_a_baseline_that_is_not_there_is_refused_with_how_to_write_one(tmp_path):
    with pytest.raises(InputFileError) as refused:
        load(tmp_path / "none.json")
    assert "--write-baseline" in refused.value.remedy
