"""How a request is read: its words, its phrases, its slips, and its parts."""

from __future__ import annotations

import pytest

from esper_agents.agents.routing.passages import HEAD, TAIL, Kind, bounded, passages
from esper_agents.agents.routing.phrases import PhraseIndex
from esper_agents.agents.routing.spelling import Spelling
from esper_agents.agents.routing.words import words


def stems(text: str) -> list[str]:
    return [word.stem for word in words(text)]


def test_an_exception_holds_the_words_of_its_name():
    assert stems("torch.cuda.OutOfMemoryError") == [*stems("torch cuda"), *stems("out of memory error")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("compiles", "compiling"),
        ("Données", "donnees"),
        ("LEAKS", "leaked"),
        ("losses", "loss"),
        ("torch.compile", "torch compile"),
        ("doesn\u2019t", "doesnt"),
        ("1.3x", "2 \u00d7"),
        ("30 %", "12.5%"),
        ("2.00 GiB", "16GB"),
        ("900 ms", "4 hours"),
    ],
)
def test_words_compare_whatever_their_dress(one: str, other: str):
    assert stems(one) == stems(other)


def test_a_word_knows_where_it_stands():
    text = "损失 is  NaN!"
    assert [text[word.start : word.end] for word in words(text)] == ["损", "失", "is", "NaN"]


def found(phrases: list[str], text: str) -> set[str]:
    return {hit.meaning for hit in PhraseIndex((phrase, phrase) for phrase in phrases).find(words(text))}


def test_a_gap_lets_four_words_stand_between():
    assert found(["loss .. nan"], "loss turned into a nan") == {"loss .. nan"}
    assert found(["loss .. nan"], "loss and four more words here nan") == set()


def test_a_phrase_within_a_longer_one_is_left_out():
    assert found(["memory", "memory leak"], "a memory leak") == {"memory leak"}
    assert found(["memory", "memory leak"], "memory: a memory leak") == {"memory", "memory leak"}


def test_any_ending_and_one_form_only():
    assert found(["quantiz*"], "is it quantizable") == {"quantiz*"}
    assert found(["=testing"], "tests") == set()


def test_one_slip_is_mended_and_two_are_not():
    spelling = Spelling(["memory", "graph"], known=["grape"])
    swapped, doubled, missing, wrong = "mem" + "roy", "mem" + "mory", "mem" + "ry", "mem" + "ori"
    assert [spelling.corrected(word) for word in (swapped, doubled, missing, wrong)] == ["memory"] * 4
    assert spelling.corrected("mme" + "roy") is None
    assert spelling.corrected("grape") is None
    assert spelling.corrected("x" * 100_000) is None


def test_a_request_is_taken_apart_into_prose_code_frames_and_the_exception():
    text = (
        "why?\n```python\nx = 1\n```\n"
        'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f(x)\nKeyError: 1\nthanks'
    )
    assert [(passage.kind, passage.text.split("\n")[-1]) for passage in passages(text)] == [
        (Kind.PROSE, "why?"),
        (Kind.CODE, "x = 1"),
        (Kind.FRAME, '  File "a.py", line 1, in <module>'),
        (Kind.EXCEPTION, "KeyError: 1"),
        (Kind.PROSE, "thanks"),
    ]


def test_code_that_nobody_fenced_is_code_where_two_lines_read_so():
    pasted = "fine?\n\nloss = model(x)\nloss.backward()\n\nthat is all"
    assert [passage.kind for passage in passages(pasted)] == [Kind.PROSE, Kind.CODE, Kind.PROSE]
    assert [passage.kind for passage in passages("it says\nloss = nan\nand stops")] == [Kind.PROSE]


def test_the_ends_of_a_long_text_are_kept():
    long = "a" * HEAD + "b" * 1_000_000 + "c" * TAIL
    assert bounded(long) == "a" * HEAD + "\n" + "c" * TAIL
    assert bounded("short") == "short"
