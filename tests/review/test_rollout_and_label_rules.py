"""Cases of ESP283, ESP285 and ESP286: rollouts of policies, and padded labels."""

from __future__ import annotations

import pytest

ROLLOUT = """
    import numpy as np
    import torch

    def collect(env, policy, obs, values, n):
        dones, rewards = torch.zeros(n), torch.zeros(n)
        kept = []
        next_done = torch.zeros(1)
        for t in range(n):
            {before}
            obs, reward, ended, cut, _ = env.step(policy(obs))
            done = np.logical_or(ended, cut)
            {after}
        total = 0.0
        for t in reversed(range(n - 1)):
            alive = {alive}
            total = rewards[t] + 0.99 * values[t + 1] * alive + total
        return total
    """


@pytest.mark.parametrize(
    ("after", "alive"),
    [
        ("dones[t] = torch.as_tensor(done)", "1.0 - dones[t + 1]"),
        ("dones[t] = torch.as_tensor(done)", "1 - dones[t + 1].float()"),
        ("dones[t] = ended", "~dones[t + 1]"),
        ("flag = torch.as_tensor(done).float(); dones[t] = flag", "torch.logical_not(dones[t + 1])"),
        ("kept.append(done)", "1 - kept[t + 1]"),
    ],
)
def test_a_flag_of_its_own_step_that_is_read_one_step_late_is_reported(found, after, alive):
    after = after.replace("; ", "\n            ")
    assert len(found("ESP286", ROLLOUT.format(before="pass", after=after, alive=alive))) == 1


def test_flags_of_an_object_are_followed_to_the_method_that_fills_them(found):
    source = """
        class Buffer:
            def collect(self, env, policy, obs):
                for t in range(self.n):
                    obs, reward, done, info = env.step(policy(obs))
                    self.dones[t] = done

            def advantages(self, values):
                last = 0
                for t in reversed(range(self.n - 1)):
                    alive = 1 - self.dones[t + 1]
                    last = values[t + 1] * alive + last
                return last
        """
    assert len(found("ESP286", source)) == 1


@pytest.mark.parametrize(
    ("before", "after", "alive"),
    [
        ("pass", "dones[t] = torch.as_tensor(done)", "1.0 - dones[t]"),
        ("dones[t] = next_done", "next_done = torch.as_tensor(done)", "1.0 - dones[t + 1]"),
        ("pass", "dones[t + 1] = torch.as_tensor(done)", "1.0 - dones[t + 1]"),
        ("pass", "rewards[t] = reward", "1.0 - rewards[t + 1]"),
        ("kept.append(next_done)", "next_done = done", "1.0 - kept[t + 1]"),
    ],
)
def test_flags_of_the_step_before_are_not_reported(found, before, after, alive):
    assert found("ESP286", ROLLOUT.format(before=before, after=after, alive=alive)) == []


POLICY = """
    import torch
    from torch.distributions import {kind}

    class Policy(torch.nn.Module):
        def evaluate(self, obs, action):
            d = {kind}({made})
            {lines}

        def loss(self, obs, action, old):
            p, e = self.evaluate(obs, action)
            return (({used} - old).exp()).mean() - e.mean()
    """
NORMAL = ("Normal", "self.mean(obs), self.std")


@pytest.mark.parametrize(
    "lines",
    [
        "return d.log_prob(action), d.entropy().sum(-1)",
        "return d.log_prob(action), d.entropy().sum(dim=-1)",
        "logp = d.log_prob(action)\n            return logp, d.entropy().sum(1)",
        "entropy = d.entropy().sum(axis=-1)\n            return d.log_prob(action), entropy",
    ],
)
def test_a_log_probability_that_is_not_summed_beside_the_entropy_is_reported(found, lines):
    kind, made = NORMAL
    assert len(found("ESP283", POLICY.format(kind=kind, made=made, lines=lines, used="p"))) == 1


@pytest.mark.parametrize(
    ("kind", "made", "lines", "used"),
    [
        (*NORMAL, "return d.log_prob(action).sum(-1), d.entropy().sum(-1)", "p"),
        (*NORMAL, "logp = d.log_prob(action)\n            return logp.sum(-1), d.entropy().sum(-1)", "p"),
        (*NORMAL, "return torch.sum(d.log_prob(action), dim=-1), d.entropy().sum(-1)", "p"),
        (*NORMAL, "return d.log_prob(action), d.entropy().mean()", "p"),
        ("Categorical", "logits=self.mean(obs)", "return d.log_prob(action), d.entropy()", "p"),
        ("MultivariateNormal", "self.mean(obs), self.cov", "return d.log_prob(action), d.entropy().sum(-1)", "p"),
    ],
)
def test_summed_log_probabilities_are_not_reported(found, kind, made, lines, used):
    assert found("ESP283", POLICY.format(kind=kind, made=made, lines=lines, used=used)) == []


LABELS = {
    "data.py": """
        import torch
        from torch.nn.utils.rnn import pad_sequence

        PAD, IGNORED = 0, -100

        def collate(batch):
            ids, tags = zip(*batch)
            {collated}
        """,
    "train.py": """
        import torch
        from torch import nn
        from torch.nn import functional as F

        def train(model, loader, optimizer):
            loss = nn.CrossEntropyLoss(ignore_index={ignored})
            for {drawn} in {rounds}:
                optimizer.zero_grad()
                logits = model(ids)
                {used}.backward()
                optimizer.step()
        """,
}
USED = "loss(logits.flatten(0, 1), tags.flatten())"
ONE = "ids, tags"


@pytest.mark.parametrize(
    ("collated", "ignored", "drawn", "used"),
    [
        ("return pad_sequence(ids), pad_sequence(tags)", -100, ONE, USED),
        ("return pad_sequence(ids, True, PAD), pad_sequence(tags, True, PAD)", -100, ONE, USED),
        ("x = pad_sequence(ids)\n            y = pad_sequence(tags)\n            return x, y", -1, ONE, USED),
        ("return pad_sequence(ids), pad_sequence(tags)", -100, "step, (ids, tags)", USED),
        ("return pad_sequence(ids), pad_sequence(tags, padding_value=1)", 0, ONE, USED.replace("tags", "tags.cuda()")),
    ],
)
def test_labels_padded_with_a_class_that_the_loss_counts_are_reported(found, collated, ignored, drawn, used):
    rounds = "enumerate(loader)" if "step" in drawn else "loader"
    train = LABELS["train.py"].format(ignored=ignored, drawn=drawn, rounds=rounds, used=used)
    assert len(found("ESP285", {"data.py": LABELS["data.py"].format(collated=collated), "train.py": train})) == 1


@pytest.mark.parametrize(
    ("collated", "ignored", "used"),
    [
        ("return pad_sequence(ids), pad_sequence(tags, padding_value=-100)", -100, USED),
        ("return pad_sequence(ids), pad_sequence(tags, True, IGNORED)", -100, USED),
        ("return pad_sequence(ids), pad_sequence(tags)", 0, USED),
        ("return pad_sequence(ids), torch.stack(tags)", -100, USED),
        ("return pad_sequence(ids), pad_sequence(tags)", -100, "loss(logits[ids], tags[ids != 0])"),
        ("return pad_sequence(ids), pad_sequence(tags)", -100, "loss(logits, tags.masked_fill(ids == 0, -100))"),
    ],
)
def test_labels_padded_with_what_is_ignored_or_masked_are_not_reported(found, collated, ignored, used):
    train = LABELS["train.py"].format(ignored=ignored, drawn=ONE, rounds="loader", used=used)
    assert found("ESP285", {"data.py": LABELS["data.py"].format(collated=collated), "train.py": train}) == []
