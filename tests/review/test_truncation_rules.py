"""Cases of ESP132, time limits that are stored as ends of episodes."""

from __future__ import annotations

import pytest

COLLECT = """
    import numpy as np
    import torch

    def collect(env, policy, buffer, obs):
        action = policy(obs)
        nxt, reward, term, trunc, _ = env.step(action)
        {store}
        {more}
        return env.reset() if term or trunc else nxt

    def target(reward, value, done):
        return reward + 0.99 * {alive} * value.detach()
    """


@pytest.mark.parametrize(
    "store",
    [
        "buffer.done[0] = float(term or trunc)",
        "buffer.add(obs, reward, nxt, term or trunc)",
        "done = term | trunc; buffer.append((obs, reward, done))",
        "done = np.logical_or(term, trunc); buffer.store(obs, reward, float(done))",
    ],
)
def test_a_time_limit_that_is_stored_as_an_end_is_advice(found, store):
    assert len(found("ESP132", COLLECT.format(store=store, more="pass", alive="(1 - done)"))) == 1


@pytest.mark.parametrize(
    ("store", "more", "alive"),
    [
        ("buffer.add(obs, reward, nxt, term)", "pass", "(1 - done)"),
        ("buffer.add(obs, reward, nxt, term or trunc)", "if trunc: reward += policy.value(nxt)", "(1 - done)"),
        ("done = term or trunc", "if done: print(reward)", "(1 - done)"),
        ("buffer.add(obs, reward, nxt, term or trunc)", "pass", "done"),
    ],
)
def test_flags_that_only_reset_or_are_handled_are_not_reported(found, store, more, alive):
    assert found("ESP132", COLLECT.format(store=store, more=more, alive=alive)) == []
