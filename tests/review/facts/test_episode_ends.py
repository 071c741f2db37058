"""Tests of the facts about ends of episodes."""

from __future__ import annotations

import pytest

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources

MUST, CHECK, OPEN, FINE = (
    Assessment.MUST_CHANGE,
    Assessment.SHOULD_CHECK,
    Assessment.OPEN,
    Assessment.FINE,
)
LOOP = """\
def collect(env, policy, buffer):
    obs, _ = env.reset()
    for _ in range(100):
        nxt, reward, terminated, truncated, _ = env.step(policy(obs))
        buffer.add(obs, reward, terminated)
        obs = nxt
        if terminated or truncated:
            obs, _ = env.reset()
"""
ADVANTAGES = """\
def advantages(rewards, values, dones, gamma, lam):
    total, found = 0, []
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + gamma * values[t + 1] - values[t]
        total = delta + gamma * lam * total
        found.append(total)
    return found
"""


def facts(source):
    done = inspect_sources({"net.py": source}, InspectionSubject(("reinforcement learning",)), names=["episode-ends"])
    assert not done.results[0].problem
    return {(fact.line, fact.assessment): fact.text for fact in done.results[0].facts}


def test_a_loop_that_reads_both_flags_and_resets_is_fine():
    assert set(facts(LOOP)) == {(4, FINE)}


def test_a_truncation_that_nothing_reads_is_told():
    told = facts(LOOP.replace("terminated or truncated", "terminated"))
    assert "`truncated`, which nothing reads" in told[4, CHECK]
    assert told[4, CHECK].endswith("(if the environment has a time limit)")
    dropped = facts(LOOP.replace("terminated or truncated", "terminated").replace("truncated", "_"))
    assert "drops its flag `truncated`" in dropped[4, CHECK]


def test_a_loop_that_neither_resets_nor_ends_is_told():
    tail = "        if terminated or truncated:\n            obs, _ = env.reset()\n"
    told = facts(LOOP.replace(tail, "        log(terminated, truncated)\n"))
    assert "neither resets the environment nor ends" in told[4, CHECK]
    assert (4, CHECK) not in facts(LOOP.replace(tail, "        if terminated or truncated:\n            break\n"))
    vectors = LOOP.replace(tail, "        log(terminated, truncated)\n").replace("env", "envs")
    assert (4, CHECK) not in facts(vectors)


def test_one_flag_of_the_old_interface_is_open():
    source = "def run(env):\n    done = False\n    while not done:\n        obs, reward, done, info = env.step(0)\n"
    assert set(facts(source)) == {(4, OPEN)}
    assert facts("def run(self):\n    a, b, c, d = self.optimizer.step(0)\n") == {}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("x", "x", {(5, MUST)}),
        ("dones, ", "", {(5, OPEN)}),
        ("gamma * lam * total", "gamma * lam * (1 - dones[t]) * total", {(5, FINE)}),
        ("gamma * lam * total", "gamma * lam * keep * total\n        keep = 1 - dones[t]", set()),
    ],
    ids=["given and not read", "not given", "masked", "read"],
)
def test_a_sum_over_ends_must_change_if_the_ends_are_given_and_not_read(old, new, expected):
    assert set(facts(ADVANTAGES.replace(old, new) if old != new else ADVANTAGES)) == expected
