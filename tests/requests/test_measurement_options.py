from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.requests.measurement_options import measurement_options


@pytest.mark.parametrize(
    ("request_text", "named"),
    [
        ("why does torch.compile break in model.py:make_model?", ("model.py:make_model",)),
        ("compare a/b.py:old with package.module:Class.method", ("a/b.py:old", "package.module:Class.method")),
        ("profile `Net` and `make_step()`", ("Net", "make_step")),
        ("is fused_norm faster than layer_norm?", ("fused_norm", "layer_norm")),
        ("what is wrong with LayerStack", ("LayerStack",)),
        ("see model.py:12 and train.py", ()),
        ("where does the time go in the step", ()),
        ("", ()),
    ],
)
def test_what_is_named_is_taken_as_it_stands_and_ordinary_words_name_nothing(request_text, named):
    assert measurement_options(request_text).named == named


@pytest.mark.parametrize(
    ("request_text", "inputs"),
    [
        ("run it on randn(32,128)", ("randn(32,128)",)),
        (
            "with x=randint(0,10,(8,)) and torch.randn([2, 3], dtype=float64).",
            ("x=randint(0,10,(8,))", "torch.randn([2, 3], dtype=float64)"),
        ),
        ("is it faster on inputs randint(0,9,(8,)), 512, eps=1e-6?", ("randint(0,9,(8,))", "512", "eps=1e-6")),
        ("is it faster on randn(8, 4), 512 times?", ("randn(8, 4)",)),
        ("inputs randn(8, 4), 2 layers", ("randn(8, 4)",)),
        ("with rand( and nothing more", ()),
        ("operands(3) are many", ()),
    ],
)
def test_inputs_are_calls_that_make_tensors(request_text, inputs):
    assert measurement_options(request_text).inputs == inputs


def test_inputs_may_come_from_a_function():
    asked = measurement_options("profile model.py:Net, inputs from batches.py:make")
    assert (asked.named, asked.inputs_from) == (("model.py:Net",), "batches.py:make")


@pytest.mark.parametrize(
    ("request_text", "claim"),
    [
        ("is it 1.3x faster", "1.3"),
        ("20 % less latency or we revert", "1.25"),
        ("it is 30 % faster", "1.3"),
        ("8x8 images on two GPUs", ""),
        ("is it faster", ""),
    ],
)
def test_a_claim_is_baseline_over_candidate(request_text, claim):
    assert measurement_options(request_text).claim == claim


@pytest.mark.parametrize(
    ("request_text", "base"),
    [
        ("did it get slower since HEAD~1?", "HEAD~1"),
        ("compare with commit 4f2a99c", "4f2a99c"),
        ("--base v1.2.0 please", "v1.2.0"),
        ("compare with the old one", ""),
        ("since monday", ""),
    ],
)
def test_a_revision_is_one_that_git_would_know(request_text, base):
    assert measurement_options(request_text).base == base


def test_of_two_the_one_before_the_word_that_compares_is_the_new_one():
    assert measurement_options("is ops.py:new faster than ops.py:old").candidate_first
    assert measurement_options("is ops.py:mean_fast at least 2x faster than ops.py:mean?").candidate_first
    assert not measurement_options("compare ops.py:old with ops.py:new").candidate_first
    assert not measurement_options("is it faster, ops.py:old or ops.py:new").candidate_first


def test_training_and_export_are_told_by_words_and_not_by_names_of_files():
    assert measurement_options("profile a training step").train
    assert not measurement_options("review train.py and export/model.py").train
    assert measurement_options("does it export to ONNX").export
    assert not measurement_options("review export/model.py").export


@given(st.text(max_size=200))
def test_every_request_can_be_read(request_text):
    asked = measurement_options(request_text)
    assert all(each in request_text for each in (*asked.inputs, asked.inputs_from, asked.base))
