"""Passages of a request: prose, code, frames and exceptions."""

from __future__ import annotations

from esper_agents.agents.routing.passages import HEAD, TAIL, Kind, bounded, passages


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
