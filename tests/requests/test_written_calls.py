"""Calls and shapes that requests write as code."""

import pytest

from esper_agents.requests.written_calls import WrittenCall, calls_of, written_calls, written_shape

ASKED = """since i pass lens training dies. idk (really) why

self.vq = VectorQuantize(dim=512, codebook_dim=cfg.dim, codebook_size=1024)
  File "train_tts.py", line 121, in step
    z_q, codes, commit = self.model.vq(z, lens=batch['lens'])
"""


def test_calls_keep_literals_and_leave_other_arguments_open():
    assert written_calls(ASKED) == (
        WrittenCall("VectorQuantize", "dim=512, codebook_dim=..., codebook_size=1024", "vq"),
        WrittenCall("vq", "..., lens=...", "commit"),
    )


def test_a_constructor_and_the_call_of_its_object_belong_together():
    assert calls_of("VectorQuantize", ASKED) == ("dim=512, codebook_dim=..., codebook_size=1024", "..., lens=...")
    assert calls_of("Net", "is Net(3) ok? net(x, 4) is slow") == ("3", "..., 4")


def test_the_arguments_of_a_function_are_those_of_its_call():
    assert calls_of("median", "line 30 is p = torchcrepe.filter.median(p, 4)") == ("", "..., 4")


@pytest.mark.parametrize("text", ["what is f(", "broken(1,, 2)", "spread(*sizes, 3)", "words (in brackets) only"])
def test_text_that_is_no_call_names_no_argument(text):
    assert all(not each.arguments for each in written_calls(text))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("input (2, 50, 256), shapes of the outputs?", "2,50,256"),
        ("my x is [8, 3, 32, 32]", "8,3,32,32"),
        ("what are the sizes with 128x128 rgb", "2,3,128,128"),
        ("a 1x28x28 digit", "2,1,28,28"),
        ("range(2, 5) and f(3, 4)", ""),
        ("is B really 1.3x faster than A?", ""),
        ("(100000, 100000, 100000) is too large to try", ""),
    ],
)
def test_a_written_shape_is_found_and_arguments_are_not_taken_for_one(text, shape):
    assert written_shape(text) == shape
