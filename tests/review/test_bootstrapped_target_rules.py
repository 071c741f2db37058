"""Cases of ESP225, bootstrapped targets that carry a graph."""

from __future__ import annotations

import pytest

from esper_agents.domain.finding import Severity
from esper_agents.review.engine import review_sources

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F
import pytorch_lightning as pl


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        return self.out(x)


"""

MOVING = {
    "an agent": """
class Agent:
    def __init__(self):
        self.q = QNet()
        self.optimizer = torch.optim.Adam(self.q.parameters())

    def learn(self, s, a, r, s2, done):
        q = self.q(s).gather(1, a)
        target = r + self.gamma * self.q(s2).max(1, keepdim=True)[0] * (1 - done)
        loss = F.smooth_l1_loss(q, target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
""",
    "a name between": """
def update(net, optimizer, batch, gamma):
    s, a, reward, s2, done = batch
    next_q = net(s2)
    best = next_q.max(dim=1).values
    expected = reward + gamma * best * (1 - done)
    loss = nn.MSELoss()(net(s).gather(1, a).squeeze(), expected)
    loss = ((net(s).gather(1, a).squeeze() - expected) ** 2).mean()
    loss.backward()
    optimizer.step()
""",
    "in the loss": """
def update(q_net, optimizer, s, a, rewards, s2, done, gamma):
    loss = F.mse_loss(q_net(s).gather(1, a), rewards + gamma * q_net(s2).amax(1, keepdim=True) * (1 - done))
    loss.backward()
    optimizer.step()
""",
    "a method": """
class Critic:
    def __init__(self):
        self.value_net = QNet()

    def targets(self, reward, s2, done):
        next_value = self.value_net(s2)
        return reward + self.gamma * next_value * (1 - done)

    def update(self, s, reward, s2, done):
        target = self.targets(reward, s2, done)
        loss = F.mse_loss(self.value_net(s), target)
        loss.backward()
        self.optimizer.step()
""",
    "Lightning": """
class DQN(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = QNet()

    def training_step(self, batch, i):
        s, a, reward, s2, done = batch
        expected = reward + self.hparams.gamma * self.net(s2).max(1)[0] * (1 - done)
        return F.mse_loss(self.net(s).gather(1, a).squeeze(-1), expected)
""",
    "a squared difference that is returned": """
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.v = QNet()

    def loss(self, s, s2, reward):
        return ((reward + self.gamma * self.v(s2) - self.v(s)) ** 2).mean()


def train(critic: Critic, batches):
    critic = Critic()
    for batch in batches:
        critic.loss(*batch).backward()
""",
    "an error that is squared": """
def step(net, optimizer, s, s2, reward, done, gamma):
    net = QNet()
    error = reward + gamma * net(s2).mean(1) * (1 - done) - net(s).mean(1)
    loss = error.pow(2).mean()
    loss.backward()
    optimizer.step()
""",
    "a squared difference": """
def step(critic, s, s2, reward, gamma):
    critic = QNet()
    value, next_value = critic(s), critic(s2)
    td_target = reward + gamma * critic(s2)
    (td_target - value).pow(2).mean().backward()
""",
}

TRAINED = """

def train(batches, optimizer):
    for batch in batches:
        loss(*batch).backward()
        optimizer.step()
"""
FIXED = {
    "no_grad": """
    with torch.no_grad():
        target = reward + gamma * net(s2).max(1)[0] * (1 - done)
    return F.mse_loss(net(s).max(1)[0], target)
""",
    "no_grad about the value": """
    with torch.no_grad():
        best = net(s2).max(1)[0]
    target = reward + gamma * best * (1 - done)
    return F.mse_loss(net(s).max(1)[0], target)
""",
    "detached in the sum": """
    target = reward + gamma * net(s2).max(1)[0].detach() * (1 - done)
    return F.mse_loss(net(s).max(1)[0], target)
""",
    "detached in the loss": """
    target = reward + gamma * net(s2).max(1)[0] * (1 - done)
    return F.mse_loss(net(s).max(1)[0], target.detach())
""",
    "detached under another name": """
    target = reward + gamma * net(s2).max(1)[0] * (1 - done)
    fixed = target.detach()
    return F.mse_loss(net(s).max(1)[0], fixed)
""",
    "detached in place": """
    target = reward + gamma * net(s2).max(1)[0] * (1 - done)
    target = target.detach()
    return F.mse_loss(net(s).max(1)[0], target)
""",
    "an error that is looked at": """
    estimate = reward + gamma * net(s2).max(1)[0]
    errors = ((estimate - net(s).max(1)[0]) ** 2).tolist()
    return F.mse_loss(net(s).max(1)[0], reward), errors
""",
    "returns of rewards": """
    target = reward + gamma * done
    return F.mse_loss(net(s).max(1)[0], target)
""",
    "an actor that climbs the value": """
    value = reward + gamma * net(s2).max(1)[0]
    return -value.mean()
""",
    "an advantage that is detached": """
    target = reward + gamma * net(s2)
    advantage = (target - net(s)).detach()
    return -(advantage * done).mean()
""",
    "an error whose next value is detached": """
    error = reward + gamma * net(s2).mean(1).detach() * (1 - done) - net(s).mean(1)
    return error.pow(2).mean()
""",
    "an error that weighs a policy": """
    error = reward + gamma * net(s2).mean(1) * (1 - done) - net(s).mean(1)
    return -(net(s).log_softmax(1)[:, 0] * error.detach()).mean()
""",
    "an array": """
    target = reward + gamma * net(s2).detach().cpu().numpy().max(1) * (1 - done)
    return F.mse_loss(net(s).max(1)[0], torch.from_numpy(target))
""",
}


@pytest.mark.parametrize("body", MOVING.values(), ids=MOVING)
def test_a_target_with_the_graph_of_its_network_is_found(found, body):
    assert len(found("ESP225", HEAD + body)) == 1


@pytest.mark.parametrize("body", FIXED.values(), ids=FIXED)
def test_targets_without_a_graph_are_left_alone(found, body):
    assert found("ESP225", f"{HEAD}def loss(net, s, reward, s2, done, gamma):\n    net = QNet(){body}{TRAINED}") == []


def test_the_value_of_an_object_that_may_return_arrays_is_left_alone(found):
    source = (
        "def fit(algo, batch, optimizer, gamma):\n    value = algo.predict_value(batch.obs)\n"
        "    target = batch.reward + gamma * algo.predict_value(batch.next_obs)\n"
        "    error = ((value - target) ** 2).mean()\n    algo.loss(batch).backward()\n    return error\n"
    )
    assert found("ESP225", source) == []


def test_a_decorated_method_is_left_alone(found):
    source = HEAD + MOVING["a method"].replace("    def targets", "    @torch.no_grad()\n    def targets")
    assert found("ESP225", source) == []


def test_a_target_network_makes_it_a_suggestion():
    source = HEAD + MOVING["an agent"].replace("self.q(s2)", "self.q_target(s2)").replace(
        "self.q = QNet()", "self.q, self.q_target = QNet(), QNet()"
    )
    report = review_sources({"train.py": source}, rules=["ESP225"])
    assert [claim.severity for claim in report.claims] == [Severity.SUGGESTION]


def test_a_residual_gradient_is_left_alone(found):
    source = HEAD + MOVING["an agent"].replace("class Agent", "class ResidualAgent")
    assert found("ESP225", source) == []
