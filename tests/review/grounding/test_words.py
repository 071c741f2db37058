"""Words of questions and identifiers in one form."""

from __future__ import annotations

import pytest

from esper_agents.review.grounding.words import abbreviations_of, is_common, is_near, spoken_words, stem, terms_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("decoupled", "decouple"),
        ("clipping", "clip"),
        ("normalization", "normalized"),
        ("batches", "batch"),
        ("updates", "updating"),
        ("sampler", "sampling"),
    ],
)
def test_forms_of_a_word_have_one_stem(one, other):
    assert stem(one) == stem(other)


def test_identifiers_are_split_and_abbreviations_written_out():
    assert terms_of("weight_decay") == terms_of("wd") == terms_of("WeightDecay")
    assert terms_of("lr") == terms_of("learning_rate")
    assert "wd" in abbreviations_of(terms_of("weight_decay"))


def test_words_without_a_meaning_for_code_are_common():
    assert is_common("what")
    assert is_common("isn't")
    assert not is_common("divisible")


def test_one_typing_error_in_a_long_word_is_near():
    assert is_near("vrtual", "virtual")
    assert is_near("patence", "patience")
    assert not is_near("tau", "tan")
    assert not is_near("batch", "match")


def test_words_keep_their_places():
    first, second = spoken_words("use_triton breaks")
    assert (first.text, first.begin, first.end) == ("use_triton", 0, 10)
    assert second.text == "breaks"
