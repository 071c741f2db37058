"""Tests of the queries about reinforcement learning: targets and policy updates."""

from __future__ import annotations

import pytest

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources

SUBJECT = InspectionSubject(("reinforcement learning",))
MUST, SHOULD, FINE = Assessment.MUST_CHANGE, Assessment.SHOULD_CHECK, Assessment.FINE
HEAD = "import copy\nimport torch\nimport torch.nn.functional as F\n\n\n"
UPDATE = """def update(self, state, action, reward, next_state, done):
    q = self.q_net(state).gather(1, action)
    {target}
    loss = F.mse_loss(q, {used})
    loss.backward()
"""


def found(query, source, *assessments):
    done = inspect_sources({"agent.py": HEAD + source}, SUBJECT, names=[query])
    assert not done.results[0].problem
    return [fact for fact in done.results[0].facts if fact.assessment in assessments]


def update(target, used="target"):
    return UPDATE.format(target=target, used=used)


VALUE = "reward + self.gamma * self.q_net(next_state).max(1).values"


def test_a_target_with_a_graph_must_change():
    assert len(found("bootstrapped-targets", update(f"target = {VALUE} * (1 - done)"), MUST)) == 1


@pytest.mark.parametrize(
    ("target", "used"),
    [
        (f"target = ({VALUE} * (1 - done)).detach()", "target"),
        (f"target = {VALUE} * (1 - done)", "target.detach()"),
        (f"with torch.no_grad():\n        target = {VALUE} * (1 - done)", "target"),
        ("next_q = self.q_net(next_state).detach()\n    target = reward + self.gamma * next_q * (1 - done)", "target"),
        (
            "with torch.no_grad():\n        v = self.q_net(state)\n    target = reward + self.gamma * v * (1 - done)",
            "target",
        ),
    ],
)
def test_a_target_without_a_graph_is_not_reported(target, used):
    assert not found("bootstrapped-targets", update(target, used), MUST, SHOULD)


def test_a_target_through_a_target_network_costs_memory_only():
    target = update(f"target = {VALUE} * (1 - done)").replace("self.q_net(next", "self.target_net(next")
    assert [each.assessment for each in found("bootstrapped-targets", target, MUST, SHOULD)] == [SHOULD]


def test_a_target_that_never_reads_the_end_of_the_episode_must_change():
    assert found("bootstrapped-targets", update(f"target = ({VALUE}).detach()"), MUST)
    masked = "v = self.q_net(next_state).detach()\n    v[done] = 0\n    target = reward + self.gamma * v"
    assert not found("bootstrapped-targets", update(masked), MUST)


def test_a_discounted_sum_of_rewards_is_no_target():
    source = (
        "def returns(rewards, gamma):\n    total = 0\n    for r in rewards[::-1]:\n        total = r + gamma * total\n"
    )
    assert not found("bootstrapped-targets", source, MUST, SHOULD)


RUN = """def run(env, buffer, policy):
    obs, info = env.reset()
    while True:
        action = policy(obs)
        new, reward, terminated, truncated, info = env.step(action)
        done = terminated or truncated
        buffer.add(obs, action, reward, new, {})
"""


def test_a_time_limit_stored_as_an_end_should_be_checked():
    assert found("bootstrapped-targets", RUN.format("done"), SHOULD)
    assert not found("bootstrapped-targets", RUN.format("terminated"), SHOULD)


AGENT = """class Agent:
    def __init__(self, net):
        self.net = net
        self.target_net = copy.deepcopy(net)

    def learn(self, x):
        {}
"""


def test_a_target_network_that_nothing_updates_must_change():
    assert found("bootstrapped-targets", AGENT.format("self.net(x)"), MUST)
    synced = AGENT.format("self.target_net.load_state_dict(self.net.state_dict())")
    assert not found("bootstrapped-targets", synced, MUST)


POLICY = """def update(self, states, actions, returns, old_log_prob):
    dist = self.policy(states)
    log_prob = dist.log_prob(actions)
    entropy = dist.entropy().mean()
    value = self.critic(states)
    {}
    loss.backward()
"""


@pytest.mark.parametrize(
    "lines",
    [
        "advantage = returns - value\n    loss = -(log_prob * advantage).mean()",
        "loss = self.surrogate(log_prob) + 0.01 * entropy",
        "old_log_prob = dist.log_prob(actions)\n    loss = torch.exp(log_prob - old_log_prob).mean()",
        "action = dist.sample()\n    loss = -dist.log_prob(dist.sample()) * returns",
    ],
)
def test_a_wrong_policy_update_must_change(lines):
    assert len(found("policy-updates", POLICY.format(lines), MUST)) == 1


@pytest.mark.parametrize(
    "lines",
    [
        "advantage = returns - value.detach()\n    loss = -(log_prob * advantage).mean()",
        "advantage = returns - value\n    loss = -(log_prob * advantage.detach()).mean()",
        "loss = self.surrogate(log_prob) - 0.01 * entropy",
        "loss = self.surrogate(log_prob) + 0.01 * -entropy",
        "entropy_loss = -dist.entropy().mean()\n    loss = self.surrogate(log_prob) + 0.01 * entropy_loss",
        "loss = torch.exp(log_prob - old_log_prob).mean()",
        "action = dist.sample()\n    loss = -dist.log_prob(action) * returns",
        "alpha_loss = self.alpha * entropy\n    loss = alpha_loss",
    ],
)
def test_a_right_policy_update_is_not_reported(lines):
    assert not found("policy-updates", POLICY.format(lines), MUST, SHOULD)
