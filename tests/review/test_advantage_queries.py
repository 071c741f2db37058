"""Cases of ESP231 where an object computes the advantage, over what the program passes on."""

from __future__ import annotations

import pytest

ACTOR = """
    import torch
    import torch.nn as nn
    from torch.distributions import Categorical

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.pi, self.v = nn.Linear(4, 2), nn.Linear(4, 1)

        def forward(self, x):
            return Categorical(logits=self.pi(x)), self.v(x).squeeze(-1)

    class Rollout:
        def __init__(self):
            self.logp, self.values, self.rewards = [], [], []

        def add(self, logp, value, reward):
            self.logp.append(logp)
            self.values.append({kept})
            self.rewards.append(reward)

        def advantages(self):
            return torch.stack([r - v for r, v in zip(self.rewards, self.values)])

    def losses(roll):
        advantage = {advantage}
        logp = torch.stack(roll.logp)
        {more}
        policy = -(logp * {factor}).mean()
        value = advantage.pow(2).mean()
        return policy + value

    def main(env, obs):
        net = Net()
        opt = torch.optim.Adam(net.parameters())
        for update in range(100):
            roll = Rollout()
            for _ in range(8):
                dist, value = net(obs)
                action = dist.sample()
                obs, reward, done, _, _ = env.step(action)
                roll.add(dist.log_prob(action), value, reward)
            opt.zero_grad()
            losses(roll).backward()
            opt.step()

    main(open("env"), torch.ones(4))
    """


def acted(kept="value", advantage="roll.advantages()", more="pass", factor="advantage"):
    return ACTOR.format(kept=kept, advantage=advantage, more=more, factor=factor)


@pytest.mark.parametrize(
    ("form", "factor"),
    [
        ({}, "advantage"),
        ({"more": "weight = (advantage - advantage.mean()) / 2", "factor": "weight"}, "weight"),
        ({"factor": "advantage.clamp(-1, 1)"}, "advantage.clamp(-1, 1)"),
    ],
)
def test_an_advantage_with_the_graph_of_the_values_is_reported(found, form, factor):
    assert found("ESP231", acted(**form)) == [f"policy = -(logp * {factor}).mean()"]


@pytest.mark.parametrize(
    "form",
    [
        {"factor": "advantage.detach()"},
        {"kept": "value.detach()"},
        {"more": "with torch.no_grad(): advantage = roll.advantages()"},
    ],
)
def test_a_detached_advantage_is_not_reported(found, form):
    assert found("ESP231", acted(**form)) == []


MIXTURE = """
    import torch
    import torch.nn as nn
    from torch.distributions import Normal

    net, gate = nn.Linear(4, 2), nn.Linear(4, 2)
    opt = torch.optim.Adam([*net.parameters(), *gate.parameters()])
    for x, y in torch.utils.data.DataLoader(data, 8, shuffle=True):
        opt.zero_grad()
        loss = -(gate(x).softmax(-1) * Normal(net(x), 1.0).log_prob(y)).sum()
        loss.backward()
        opt.step()
    """


def test_the_weights_of_a_mixture_are_not_reported(found):
    assert found("ESP231", MIXTURE) == []
