"""ESP104 in libraries, whose functions take tensors of any device."""

from __future__ import annotations

import pytest

from esper_agents.review.engine import review_sources

LIBRARY = """
import torch
from torch import Tensor, nn


def scale(x: Tensor) -> Tensor:
    return x * torch.ones(1, device=x.device)


"""
# In a library whose functions take tensors of any device.
FOLLOWING = {
    "rows chosen on the device": """
def gather(x: Tensor) -> Tensor:
    kept = torch.zeros(len(x), 3)
    chosen = x[:, 0] > 0
    kept[chosen] = x[chosen]
    return kept
""",
    "quantiles of a list": """
def levels(x: Tensor, q: list[float]) -> Tensor:
    return torch.quantile(x, torch.tensor(q), dim=1)
""",
    "made in the size of the other": """
def shifted(x: Tensor, model) -> Tensor:
    found = model.covariance @ x.inverse()
    return found + torch.diag_embed(torch.ones(found.shape[:-1]))
""",
}
LEFT_BEHIND = {
    "only handed back": """
def identity(x: Tensor):
    shape = list(x.shape)
    return torch.zeros(shape), torch.ones(shape)
""",
    "filled with what was calculated": """
def table(x: Tensor) -> Tensor:
    length = x.shape[1]
    found = torch.zeros((length, length))
    for k in range(length):
        found[k, k] = compared(x[:, k], x[:, k])
    return found.sum()
""",
    "an index that a module keeps": """
class Triangle(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.rows, self.columns = torch.triu_indices(n, n, 1)

    def forward(self, x):
        return x[:, self.rows, self.columns]
""",
}
AT_HOME = {
    "a parameter by its long name": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.parameter.Parameter(torch.ones(3))
        self.v = self.fresh()

    @staticmethod
    def fresh():
        return nn.Parameter(torch.randn(3))

    def forward(self, x):
        return x * self.w + self.v
""",
    "all of the constructor is on the host": """
class Mixture(nn.Module):
    def __init__(self, points: Tensor):
        super().__init__()
        centres = torch.tensor([[0.1, 0.2], [0.3, 0.4]])
        self.register_buffer("centres", centres + points)
""",
    "beside what is on the host": """
def grid(x: Tensor, n: int):
    steps = torch.arange(n)
    return steps + torch.arange(n, device=steps.device)
""",
    "a loss of somebody else": """
class Wrapped(nn.Module):
    def __init__(self, loss):
        super().__init__()
        self.loss = loss

    def forward(self, x):
        labels = torch.arange(x.size(0))
        return self.loss(x, labels)
""",
    "drawn with a generator": """
def keys(x: Tensor, generator):
    return torch.rand(x.shape, generator=generator).masked_fill(x > 0, -1.0)
""",
    "calculated by an array library": """
def root(x: Tensor) -> Tensor:
    found = torch.from_numpy(decompose(x.detach().cpu().numpy()))
    return x.sum() - torch.trace(found)
""",
    "lengths": """
class Attention(nn.Module):
    def forward(self, x, n_frames):
        kept = torch.arange(x.size(1)) < n_frames[:, None]
        x[~kept] = 0
        return x
""",
}


def severities(source):
    return [str(claim.severity) for claim in review_sources({"net.py": LIBRARY + source}, rules=["ESP104"]).claims]


@pytest.mark.parametrize("source", FOLLOWING.values(), ids=FOLLOWING)
def test_a_function_that_takes_any_device_and_mixes_is_warned_of(source):
    assert severities(source) == ["warning"]


@pytest.mark.parametrize("source", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
def test_what_breaks_nothing_by_itself_is_advice(source):
    assert set(severities(source)) == {"suggestion"}


@pytest.mark.parametrize("source", AT_HOME.values(), ids=AT_HOME)
def test_what_is_where_the_other_is_is_left_alone(source):
    assert severities(source) == []


def test_a_mismatch_is_critical_only_where_a_device_is_named_beside_it():
    body = "\n\ndef run(x):\n    return x.cuda() + torch.ones(3)\n"
    assert severities(body) == ["critical"]
    assert severities(body.replace("(x)", "(x: Tensor)").replace("x.cuda()", "x")) == ["warning"]
