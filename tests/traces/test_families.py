"""Tests of `esper_agents.traces.families`: torch raises the errors of the examples, the others are quoted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.traces.explain import explain_text
from esper_agents.traces.facts import FACTS
from esper_agents.traces.families import PATTERNS_FILE, error_families, required_text

FAMILIES = error_families()
REPRODUCED = [family for family in FAMILIES if family.is_reproduced]


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return the directory of the example scripts and the traces that they end with."""
    folder = tmp_path_factory.mktemp("examples")
    for family in REPRODUCED:
        (folder / f"{family.name}.py").write_text(family.example.lstrip("\n"))
    runner = Path(__file__).with_name("run_examples.py")
    done = subprocess.run(
        [sys.executable, str(runner), str(folder)], capture_output=True, text=True, check=True, cwd=folder
    )
    return folder, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("family", REPRODUCED, ids=lambda family: family.name)
def test_the_error_of_an_example_has_its_family_and_its_line(family, examples) -> None:
    folder, traces = examples
    trace = traces[family.name]
    assert trace, "the example ended without an error"
    explained = explain_text(trace, folder)
    assert explained.family == family.name, trace[-400:]
    assert explained.location is not None
    lines = (folder / explained.location.path).read_text().split("\n")
    assert lines[explained.location.line - 1].strip() == family.line
    assert "?" not in re.sub(r"`[^`]*`", "", explained.answer)


@pytest.mark.parametrize(
    "family", [each for each in FAMILIES if not each.is_reproduced], ids=lambda family: family.name
)
def test_a_quoted_message_has_its_family_and_a_source(family) -> None:
    explained = explain_text(family.quote)
    assert explained.family == family.name
    assert family.quote_source.startswith("https://")
    assert explained.answer


def test_a_family_has_an_example_or_a_quote_and_names_only_existing_facts() -> None:
    for family in FAMILIES:
        assert bool(family.example) != bool(family.quote), family.name
        assert family.sources
        assert family.causes
        assert any(cause.is_default for cause in family.causes), f"{family.name} has no cause without a condition"
        for cause in family.causes:
            assert set(cause.facts) <= FACTS.keys()
            re.compile(cause.message)
            re.compile(cause.context)


def test_there_are_fifty_families() -> None:
    assert len(FAMILIES) >= 50


@pytest.mark.parametrize(
    ("message", "family", "cause"),
    [
        ("RuntimeError: Expected hidden[0] size (416, 82, 50), got (416, 100, 50)", "rnn-shapes", "state"),
        ("IndexError: tensors used as indices must be long, byte or bool tensors", "index-type", "float-index"),
        ("AttributeError: 'PixArtMS' object has no attribute 'module'", "module-attribute", "not-wrapped"),
        (
            'RuntimeError: Error(s) in loading state_dict for Net: Unexpected key(s) in state_dict: "weight", "epoch".',
            "state-dict-keys",
            "nested-checkpoint",
        ),
        (
            'RuntimeError: Error(s) in loading state_dict for Net: Unexpected key(s) in state_dict: "module.head". ',
            "state-dict-keys",
            "saved-from-ddp",
        ),
    ],
)
def test_messages_of_older_versions_have_their_family_and_cause(message: str, family: str, cause: str) -> None:
    explained = explain_text(message)
    assert (explained.family, explained.cause) == (family, cause)


def test_a_sentence_with_a_part_that_the_message_lacks_is_dropped() -> None:
    explained = explain_text(
        "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation"
    )
    assert explained.answer.startswith("A tensor that the gradient needs was changed in place after it was kept. Run")
    assert "{" not in explained.answer + explained.fix + explained.why


def test_the_numbers_of_an_out_of_memory_message_decide_for_the_cause() -> None:
    message = (
        "OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of 24.00 GiB "
        "of which {free} is free. Including non-PyTorch memory, this process has {process} memory in use. Of the "
        "allocated memory 2.00 GiB is allocated by PyTorch, and {unused} is reserved by PyTorch but unallocated."
    )
    cases = {
        "single-request": ("14.00 GiB", "10.00 GiB", "14.00 GiB", "0.10 GiB"),
        "other-processes": ("1.00 GiB", "0.50 GiB", "3.00 GiB", "0.10 GiB"),
        "fragmentation": ("1.00 GiB", "0.50 GiB", "23.50 GiB", "5.00 GiB"),
        "all-used": ("1.00 GiB", "0.50 GiB", "23.50 GiB", "0.10 GiB"),
    }
    for cause, (tried, free, process, unused) in cases.items():
        text = message.format(tried=tried, free=free, process=process, unused=unused)
        assert explain_text(text).cause == cause


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"size of tensor (\d+)", "size of tensor "),
        (r"unscale_\(\) has been called", "unscale_() has been called"),
        (r"one|two", ""),
        (r"(?:one|two) and three", " and three"),
        (r"ab*cde", "cde"),
        (r"abcd+e", "abcd"),
        (r"abcd?e", "abc"),
        (r"abcd{0,2}e", "abc"),
        (r"a[|)x]bcd", "bcd"),
        (r"(?i)abc", ""),
        (r"\d\n\bab", "ab"),
    ],
)
def test_the_required_text_of_a_pattern_is_outside_of_what_may_be_absent(pattern, text) -> None:
    assert required_text(pattern) == text


def test_the_table_of_patterns_follows_from_the_families() -> None:
    path = Path(__file__).parents[2] / "checks" / "error_patterns.py"
    spec = spec_from_file_location("error_patterns", path)
    table = module_from_spec(spec)
    spec.loader.exec_module(table)
    assert table.text() == PATTERNS_FILE.read_text(), "run `python checks/error_patterns.py`"


@given(
    st.sampled_from([each for family in FAMILIES for each in family.patterns]).flatmap(
        lambda pattern: st.tuples(st.just(pattern), st.from_regex(re.compile(pattern, re.DOTALL)))
    )
)
def test_every_match_of_a_pattern_contains_its_required_text(matched) -> None:
    pattern, text = matched
    assert required_text(pattern) in text
