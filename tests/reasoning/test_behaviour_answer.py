"""Answers from calls of the code in question."""

from __future__ import annotations

import pytest

from esper_agents.reasoning.behaviour_answer import behaviour_topics
from esper_agents.torchlab.measurements.behaviour import STATEMENT_TOPICS


@pytest.mark.parametrize(
    ("question", "topics"),
    [
        ("is the codebook still updated in eval mode?", ("state",)),
        ("what happens for batch size 1", ("batch",)),
        ("does it mask padding, and is it causal?", ("mask", "positions")),
        ("does it return logits or probabilities", ("values",)),
        ("welche parameter bekommen keine gradienten?", ("gradients",)),
        ("is the output deterministic", ("random numbers",)),
        ("safe with amp and fp16?", ("precision",)),
        ("is this training loop right?", ()),
        ("merge this branch?", ()),
    ],
)
def test_the_words_of_a_question_say_which_observations_answer_it(question, topics):
    assert behaviour_topics(question) == topics


def test_every_topic_of_a_question_is_one_that_calls_are_observed_for():
    asked = behaviour_topics(
        "eval mode updated, state_dict, gradient, random, batch of one, other sizes, mask, causal, logits, in place, "
        "fp16, gpu, structure, shape"
    )
    assert set(asked) == set(STATEMENT_TOPICS)
