"""Cases of ESP517, loops that tracing fixes to the size of the example."""

from __future__ import annotations

import pytest

MODEL = """
    import torch
    from torch import nn

    class Smoother(nn.Module):
        def forward(self, x):
            {size}
            out = [x[:, :, 0]]
            for t in {rounds}:
                out.append(0.9 * out[-1] + 0.1 * x[:, :, t])
            return torch.stack(out, dim=2)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.depth = nn.ModuleList([Smoother()]), 3

        def forward(self, x):
            for layer in self.inner:
                x = layer(x.transpose(1, 2))
            return x
    """
EXPORT = """
    import torch
    from net import Net

    class Deploy(torch.nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def forward(self, x):
            return self.net(x).softmax(-1)

    def export(path):
        module = {module}
        axes = {axes}
        torch.onnx.export(module.eval(), (torch.rand(1, 32, 4),), path, dynamic_axes={given}, dynamo={dynamo})
    """
AXES = "{'x': {0: 'batch', 1: 'time'}}"


def sources(size="n = 4", rounds="range(1, x.size(2))", **export):
    given = {"module": "Deploy(Net())", "axes": AXES, "given": "axes", "dynamo": "False", **export}
    return {"net.py": MODEL.format(size=size, rounds=rounds), "export.py": EXPORT.format(**given)}


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"rounds": "range(x.shape[2])", "module": "Net()"},
        {"size": "n = x.size(2)", "rounds": "range(n)"},
        {"given": "{'x': [1]}"},
    ],
)
def test_a_loop_over_a_size_that_is_declared_dynamic_is_reported(found, form):
    assert len(found("ESP517", sources(**form))) == 1


@pytest.mark.parametrize(
    "form",
    [
        {"dynamo": "True"},
        {"axes": "{'x': {0: 'batch'}}"},
        {"rounds": "range(8)"},
        {"module": "torch.jit.script(Deploy(Net()))"},
    ],
)
def test_fixed_loops_and_other_exports_are_not_reported(found, form):
    assert found("ESP517", sources(**form)) == []
