"""Cases of ESP271, ESP272 and ESP273: log-probabilities, ratios and entropies of policies."""

from __future__ import annotations

import pytest

ACTOR = """
import torch
import torch.nn.functional as F
from torch.distributions import Independent, Normal, TransformedDistribution
from elsewhere import corrected

class Actor(torch.nn.Module):
    def helper(self, logp, action):
        return logp - torch.log(1 - action.pow(2) + 1e-6).sum(-1)

    def forward(self, h):
        dist = {dist}
        u = dist.{draw}()
        {body}
        return {result}
"""
PLAIN = "action = torch.tanh(u)\n        logp = dist.log_prob(u).sum(-1)"


@pytest.mark.parametrize(
    "dist", ["Normal(h, 1.0)", "Independent(Normal(h, 1.0), 1)", "torch.distributions.Normal(h, 1)"]
)
@pytest.mark.parametrize(
    ("body", "result"),
    [
        (PLAIN, "action, logp"),
        ("logp = dist.log_prob(u).sum(-1)", "u.tanh(), logp"),
        ("action = u.tanh() * 2.0\n        logp = dist.log_prob(u)", "action, logp.mean()"),
    ],
)
def test_a_squashed_action_without_its_correction_is_reported(dist, body, result, found):
    excerpts = found("ESP271", ACTOR.format(dist=dist, draw="rsample", body=body, result=result))
    assert len(excerpts) == 1
    assert "log_prob(u)" in excerpts[0]


@pytest.mark.parametrize(
    ("dist", "draw", "body", "result"),
    [
        ("Normal(h, 1.0)", "rsample", PLAIN + " - torch.log(1 - action ** 2).sum(-1)", "action, logp"),
        (
            "Normal(h, 1.0)",
            "rsample",
            PLAIN + "\n        logp -= (2 * (0.7 - u - F.softplus(-2 * u))).sum(-1)",
            "action, logp",
        ),
        ("Normal(h, 1.0)", "rsample", PLAIN, "action, self.helper(logp, action)"),
        ("Normal(h, 1.0)", "rsample", PLAIN, "action, corrected(logp, action)"),
        ("Normal(h, 1.0)", "rsample", PLAIN, "action, logp, u"),
        ("Normal(h, 1.0)", "sample", PLAIN, "action, logp"),
        ("Normal(h, 1.0)", "rsample", "logp = dist.log_prob(u).sum(-1)", "u.clamp(-1, 1), logp"),
        ("TransformedDistribution(Normal(h, 1.0), [])", "rsample", PLAIN, "action, logp"),
    ],
)
def test_corrected_and_unsquashed_log_probabilities_are_right(dist, draw, body, result, found):
    assert found("ESP271", ACTOR.format(dist=dist, draw=draw, body=body, result=result)) == []


PPO = """
import torch

def loss(dist, action, old_logp, old_prob, batch, advantage, eps=0.2):
    new_logp = dist.log_prob(action)
    ratio = {ratio}
    clipped = {clipped}
    return -torch.min(ratio * advantage, clipped * advantage).mean()
"""


@pytest.mark.parametrize(
    "clipped", ["ratio.clamp(1 - eps, 1 + eps)", "torch.clamp(ratio, 0.8, 1.2)", "torch.clip(ratio, 1.0 - eps, 2)"]
)
@pytest.mark.parametrize(
    "ratio", ["new_logp / old_logp", "new_logp - old_logp.detach()", "dist.log_prob(action) / batch['log_probs']"]
)
def test_a_clipped_ratio_of_logarithms_is_reported(ratio, clipped, found):
    assert found("ESP272", PPO.format(ratio=ratio, clipped=clipped)) == [f"ratio = {ratio}"]


@pytest.mark.parametrize(
    ("ratio", "clipped"),
    [
        ("(new_logp - old_logp).exp()", "ratio.clamp(1 - eps, 1 + eps)"),
        ("torch.exp(new_logp - old_logp)", "torch.clamp(ratio, 1 - eps, 1 + eps)"),
        ("new_logp.exp() / old_prob", "ratio.clamp(1 - eps, 1 + eps)"),
        ("new_logp.exp() / old_logp.exp()", "ratio.clamp(1 - eps, 1 + eps)"),
        ("new_logp - old_logp", "ratio.clamp(-eps, eps)"),
    ],
)
def test_ratios_of_probabilities_are_right(ratio, clipped, found):
    assert found("ESP272", PPO.format(ratio=ratio, clipped=clipped)) == []


UPDATE = """
import torch

def rollout(policy, x):
    dist = policy(x)
    a = dist.sample()
    return dist.log_prob(a), dist.entropy()

def update(policy, x, advantage, optimizer, coef=0.01):
    logp, entropy = rollout(policy, x)
    {first}
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("first", "loss"),
    [
        ("pass", "-(logp * advantage).mean() + 0.01 * entropy.mean()"),
        ("pass", "coef * entropy.mean() - (logp * advantage).mean()"),
        ("bonus = entropy.mean()", "(-logp * advantage).mean() + bonus * coef"),
        ("pass", "-((logp * advantage).mean() - 0.01 * entropy.mean())"),
        ("entropy = policy(x).entropy()", "(-logp * advantage).mean() + entropy.mean()"),
    ],
)
def test_an_entropy_that_is_added_to_the_loss_is_reported(first, loss, found):
    assert len(found("ESP273", UPDATE.format(first=first, loss=loss))) == 1


@pytest.mark.parametrize(
    ("first", "loss"),
    [
        ("pass", "-(logp * advantage).mean() - 0.01 * entropy.mean()"),
        ("pass", "-((logp * advantage).mean() + 0.01 * entropy.mean())"),
        ("bonus = -entropy.mean()", "(-logp * advantage).mean() + bonus * coef"),
        ("coef = -0.01", "(-logp * advantage).mean() + coef * entropy.mean()"),
        ("coef = policy.coefficient", "(-logp * advantage).mean() + coef * entropy.mean()"),
        ("pass", "(-logp * advantage).mean() + logp.mean()"),
    ],
)
def test_an_entropy_that_is_subtracted_is_right(first, loss, found):
    assert found("ESP273", UPDATE.format(first=first, loss=loss)) == []
