"""Cases of ESP253: moving averages of weights whose coefficients are swapped."""

from __future__ import annotations

import pytest

UPDATE = """
    import torch

    @torch.no_grad()
    def update(ema, model, decay={decay}):
        for e, p in zip(ema.parameters(), model.parameters()):
            {line}
    """


@pytest.mark.parametrize(
    ("decay", "line"),
    [
        ("0.999", "e.data = decay * p.data + (1 - decay) * e.data"),
        ("0.999", "e.copy_(p * decay + e * (1.0 - decay))"),
        ("0.005", "e.data.copy_(decay * e.data + (1 - decay) * p.data)"),
        ("0.005", "e.mul_(decay).add_(p, alpha=1 - decay)"),
        ("0.005", "e.data.mul_(decay).add_((1 - decay) * p.data)"),
        ("0.999", "e.mul_(1 - decay).add_(p, alpha=decay)"),
        ("0.999", "e.lerp_(p, decay)"),
        ("0.0", "e.mul_(0.01).add_(p, alpha=0.99)"),
    ],
)
def test_an_average_that_keeps_little_is_reported(found, decay, line):
    assert found("ESP253", UPDATE.format(decay=decay, line=line)) == [line]


@pytest.mark.parametrize(
    ("decay", "line"),
    [
        ("0.999", "e.data = decay * e.data + (1 - decay) * p.data"),
        ("0.005", "e.data.copy_((1 - decay) * e.data + decay * p.data)"),
        ("0.999", "e.mul_(decay).add_(p, alpha=1 - decay)"),
        ("0.005", "e.lerp_(p, decay)"),
        ("0.5", "e.data = decay * p.data + (1 - decay) * e.data"),
        ("None", "e.data = decay * p.data + (1 - decay) * e.data"),
        ("0.999", "p.grad = decay * p.grad"),
    ],
)
def test_an_average_that_keeps_most_or_is_unknown_is_not_reported(found, decay, line):
    assert found("ESP253", UPDATE.format(decay=decay, line=line)) == []


def test_a_coefficient_of_the_object_and_of_a_caller_is_followed(found):
    agent = """
        import torch

        class Agent:
            def __init__(self, critic, target, gamma=0.99, tau=0.005):
                self.critic, self.target = critic, target
                self.gamma, self.tau = gamma, tau

            def update(self):
                for p, tp in zip(self.critic.parameters(), self.target.parameters()):
                    tp.data.mul_(self.tau).add_(p.data, alpha=1 - self.tau)
        """
    assert len(found("ESP253", agent)) == 1
    assert found("ESP253", agent.replace("tau=0.005", "tau=0.995")) == []
    soft = """
        import torch

        def soft(target, source, tau):
            for t, s in zip(target.parameters(), source.parameters()):
                t.data.copy_(t.data * tau + s.data * (1.0 - tau))

        def fit(target, source):
            soft(target, source, 1e-3)
        """
    assert len(found("ESP253", soft)) == 1
    assert found("ESP253", soft.replace("1e-3", "0.995")) == []


def test_an_average_that_is_stored_by_a_name_is_reported(found):
    source = """
        class Average:
            def __init__(self, decay=0.999):
                self.decay, self.shadow = decay, {}

            def update(self, model):
                import torch
                for name, p in model.named_parameters():
                    new = (1 - self.decay) * self.shadow[name] + self.decay * p.data
                    self.shadow[name] = new.clone()
        """
    assert len(found("ESP253", source)) == 1
    right = source.replace("(1 - self.decay) *", "self.decay *", 1).replace("+ self.decay *", "+ (1 - self.decay) *")
    assert found("ESP253", right) == []


def test_averages_of_other_values_are_not_reported(found):
    source = """
        import torch

        def smooth(values, beta=0.1):
            mean = torch.zeros(1)
            for v in values:
                mean = beta * mean + (1 - beta) * v
            return mean
        """
    assert found("ESP253", source) == []
