"""Cases of the direction of returns (ESP134), signs of policy losses (ESP142) and targets of the network (ESP225)."""

from __future__ import annotations

import pytest

EPISODE = """
    import torch

    def returns(rewards, gamma):
        result, g = [], 0.0
        for r in {order}:
            g = r + gamma * g
            {keep}
        return torch.tensor(result)

    def train(env, policy, optimizer, obs):
        logs, rewards, done = [], [], False
        while not done:
            dist = policy(obs)
            action = dist.sample()
            obs, reward, done, _, _ = env.step(action)
            logs.append({log})
            rewards.append(reward)
        gain = returns({given}, 0.99)
        loss = {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
RIGHT = {
    "order": "reversed(rewards)",
    "keep": "result.insert(0, g)",
    "log": "dist.log_prob(action)",
    "given": "rewards",
    "loss": "-(torch.stack(logs) * gain).mean()",
}


def episode(**form):
    return EPISODE.format(**{**RIGHT, **form})


@pytest.mark.parametrize("keep", ["result.append(g)", "result.insert(0, g)"])
def test_returns_from_the_first_reward_on_are_reported(found, keep):
    assert found("ESP134", episode(order="rewards", keep=keep)) == ["g = r + gamma * g"]


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"order": "rewards[::-1]"},
        {"order": "rewards", "given": "rewards[::-1]"},
        {"order": "rewards", "keep": "pass"},
    ],
)
def test_returns_from_the_end_are_not_reported(found, form):
    assert found("ESP134", episode(**form)) == []


@pytest.mark.parametrize(
    "loss",
    [
        "(torch.stack(logs) * gain).mean()",
        "torch.sum(torch.stack(logs) * gain)",
        "(gain * torch.stack(logs)).mean() + 0.1 * gain.var()",
    ],
)
def test_a_policy_gradient_without_its_minus_is_reported(found, loss):
    assert len(found("ESP142", episode(loss=loss))) == 1


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"log": "-dist.log_prob(action)", "loss": "(torch.stack(logs) * gain).mean()"},
        {"loss": "(-gain * torch.stack(logs)).mean()"},
        {"loss": "(torch.stack(logs) * costs).mean()"},
        {"loss": "0.1 - (torch.stack(logs) * gain).mean()"},
    ],
)
def test_policy_losses_with_a_minus_and_costs_are_not_reported(found, form):
    assert found("ESP142", episode(**form)) == []


VALUES = """
    import copy
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    class Learner:
        def __init__(self):
            self.q = nn.Linear(4, 2)
            self.slow = copy.deepcopy(self.q)
            self.opt = torch.optim.Adam(self.q.parameters())

        def wanted(self, r, s2, d):
            best = {best}
            return r + 0.99 * (1 - d) * best

        def learn(self, s, a, r, s2, d):
            chosen = self.q(s).gather(1, a.unsqueeze(1)).squeeze(1)
            loss = F.mse_loss(chosen, {target})
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()

    def main(env, memory, obs):
        learner = Learner()
        for t in range(1000):
            obs, reward, term, trunc, _ = env.step(int(learner.q(obs).argmax()))
            learner.learn(*memory.sample(8))

    main(open("env"), open("memory"), torch.ones(4))
    """


@pytest.mark.parametrize(
    ("best", "target", "count"),
    [
        ("self.q(s2).max(1).values", "self.wanted(r, s2, d)", 1),
        ("self.q(s2).amax(1)", "self.wanted(r, s2, d) * 1.0", 1),
        ("self.q(s2).max(1).values", "self.wanted(r, s2, d).detach()", 0),
        ("self.slow(s2).max(1).values", "self.wanted(r, s2, d)", 0),
        ("self.q(s2).detach().max(1).values", "self.wanted(r, s2, d)", 0),
    ],
)
def test_a_target_of_another_method_with_the_graph_of_the_network(found, best, target, count):
    assert len(found("ESP225", VALUES.format(best=best, target=target))) == count
