"""Cases of ESP113, ESP231 and ESP232: fractions in whole numbers, advantages and targets that carry gradients."""

from __future__ import annotations

import pytest

METRIC = """
    import torch
    from torch import nn

    class Metric(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", {made})

        def update(self, logits, y):
            probs = logits.softmax(-1)
            best, guess = probs.max(-1)
            {line}
    """
WHOLE = "torch.zeros(10, dtype=torch.long)"


@pytest.mark.parametrize("made", [WHOLE, "torch.tensor(0)", "torch.tensor([0, 0, 0])", "torch.zeros(3).long()"])
@pytest.mark.parametrize(
    "line",
    ["self.total += probs.sum(0)", "self.total[0] += best.mean()", "self.total += (guess == y).float().mean()"],
)
def test_fractions_added_to_whole_numbers_are_reported(found, made, line):
    assert found("ESP113", METRIC.format(made=made, line=line)) == [line]


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (WHOLE, "self.total += (guess == y).sum()"),
        (WHOLE, "self.total[0] += y.numel()"),
        (WHOLE, "self.total += guess.bincount(minlength=10)"),
        (WHOLE, "self.total += guess.sum()"),
        (WHOLE, "self.total = self.total + best.mean()"),
        ("torch.zeros(10)", "self.total += probs.sum(0)"),
        ("torch.tensor(0.0)", "self.total += best.mean()"),
    ],
)
def test_counts_and_fractions_where_they_belong_are_not_reported(found, made, line):
    assert found("ESP113", METRIC.format(made=made, line=line)) == []


ACTOR = """
    import torch
    from torch import nn
    import torch.nn.functional as F
    from torch.distributions import Categorical

    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.pi, self.v = nn.Linear(4, 2), nn.Linear(4, 1)

        def forward(self, obs):
            return Categorical(logits=self.pi(obs)), self.v(obs).squeeze(-1)

    def update(agent, optimizer, obs, act, returns, old):
        dist, values = agent(obs)
        {advantage}
        {loss}
        loss = policy_loss + 0.5 * F.mse_loss(values, returns)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
LOSS = "policy_loss = -(dist.log_prob(act) * adv).mean()"
CLIPPED = "-torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()"
RATIO = f"ratio = (dist.log_prob(act) - old).exp()\n        policy_loss = {CLIPPED}"


@pytest.mark.parametrize("loss", [LOSS, RATIO])
@pytest.mark.parametrize(
    "advantage",
    [
        "adv = returns - values",
        "adv = returns - values\n        adv = (adv - adv.mean()) / (adv.std() + 1e-8)",
    ],
)
def test_an_advantage_with_the_graph_of_the_critic_is_reported(found, advantage, loss):
    assert len(found("ESP231", ACTOR.format(advantage=advantage, loss=loss))) == 1


@pytest.mark.parametrize(
    "advantage",
    [
        "adv = (returns - values).detach()",
        "adv = returns - values.detach()",
        "with torch.no_grad(): adv = returns - values",
        "adv = returns",
        "adv = returns - returns.mean()",
        "with torch.no_grad(): values = agent.v(obs)\n        adv = returns - values",
    ],
)
def test_a_detached_advantage_is_not_reported(found, advantage):
    assert found("ESP231", ACTOR.format(advantage=advantage, loss=LOSS)) == []


def test_a_critic_in_a_deterministic_policy_gradient_is_not_reported(found):
    source = ACTOR.format(advantage="adv = agent.v(obs)", loss="policy_loss = -adv.mean()")
    assert found("ESP231", source) == []


TWINS = """
    import torch
    from torch import nn
    import torch.nn.functional as F

    def distance(p, z):
        {inner}
        return -F.cosine_similarity(p, z, dim=-1).mean()

    class Twins(nn.Module):
        def __init__(self, encoder, predictor):
            super().__init__()
            self.encoder, self.predictor = encoder, predictor

        def forward(self, a, b):
            z1, z2 = self.encoder(a), self.encoder(b)
            p1, p2 = self.predictor(z1), self.predictor(z2)
            return {returned}

    def train(loader, optimizer, encoder, predictor):
        model = Twins(encoder, predictor)
        for a, b in loader:
            {loss}
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
OUTSIDE = "p1, p2, z1, z2 = model(a, b)\n            loss = (distance(p1, z2) + distance(p2, z1)) / 2"


def twins(inner="pass", returned="p1, p2, z1, z2", loss=OUTSIDE):
    return TWINS.format(inner=inner, returned=returned, loss=loss)


def test_targets_with_gradients_are_reported(found):
    assert len(found("ESP232", twins())) == 1
    inside = twins(returned="(distance(p1, z2) + distance(p2, z1)) / 2", loss="loss = model(a, b)")
    assert len(found("ESP232", inside)) == 1


@pytest.mark.parametrize(
    "cases",
    [
        {"inner": "z = z.detach()"},
        {"returned": "p1, p2, z1.detach(), z2.detach()"},
        {"loss": OUTSIDE.replace("z2)", "z2.detach())").replace("z1)", "z1.detach())", 1)},
        {"loss": OUTSIDE.replace("distance(p1, z2) + distance(p2, z1)", "distance(p1, p2) + distance(z1, z2)")},
        {"loss": OUTSIDE.replace("distance(p1, z2) + distance(p2, z1)", "distance(p1, z1) + distance(p2, z2)")},
    ],
)
def test_detached_targets_and_other_pairs_are_not_reported(found, cases):
    assert found("ESP232", twins(**cases)) == []
