"""Cases of ESP516: re-entrant checkpoints of inputs that require no gradient."""

from __future__ import annotations

import pytest

ENCODER = """
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint, checkpoint_sequential

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(1000, 64)
            self.blocks = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
            self.head = nn.Linear(64, 4)

        def forward(self, ids):
            x = self.emb(ids)
            for block in self.blocks:
                x = {run}
            return self.head(x)

    def adapt(model):
        {freeze}
        model.head.requires_grad_(True)
        for block in model.blocks:
            block.requires_grad_(True)
        return model
    """
RUN = "x + checkpoint(block, x, use_reentrant=True)"


@pytest.mark.parametrize(
    ("run", "freeze"),
    [
        (RUN, "model.requires_grad_(False)"),
        (RUN, "for p in model.parameters(): p.requires_grad = False"),
        (
            "checkpoint(block, x, use_reentrant=True)",
            "for p in model.parameters():\n            p.requires_grad_(False)",
        ),
        (
            "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=True)",
            "model.requires_grad_(requires_grad=False)",
        ),
    ],
)
def test_a_checkpoint_behind_a_frozen_embedding_is_reported(found, run, freeze):
    assert len(found("ESP516", ENCODER.format(run=run, freeze=freeze))) == 1


@pytest.mark.parametrize(
    ("run", "freeze"),
    [
        (RUN.replace("True", "False"), "model.requires_grad_(False)"),
        ("x + block(x)", "model.requires_grad_(False)"),
        (RUN, "model.head.requires_grad_(False)"),
        (RUN, "pass"),
        (RUN, "model.requires_grad_(False)\n        model.emb.requires_grad_(True)"),
        (RUN, "model.requires_grad_(False)\n        model.enable_input_require_grads()"),
    ],
)
def test_a_checkpoint_with_gradients_is_not_reported(found, run, freeze):
    assert found("ESP516", ENCODER.format(run=run, freeze=freeze)) == []


NET = """
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Conv2d(3, 8, 3)

        def forward(self, x):
            {line}
            return checkpoint(self.features, x, use_reentrant=True)

    {made}
    """
OUTER = (
    "class Outer(nn.Module):\n        def __init__(self):\n            super().__init__()\n"
    "            self.net = Net()\n    model = Outer()"
)


def test_a_checkpoint_of_the_input_of_a_model_is_reported(found):
    line = "return checkpoint(self.features, x, use_reentrant=True)"
    assert found("ESP516", NET.format(line="pass", made="model = Net()")) == [line]
    assert found("ESP516", NET.format(line="x = self.features(x)", made="model = Net()")) == []
    assert found("ESP516", NET.format(line="x.requires_grad_()", made="model = Net()")) == []
    assert found("ESP516", NET.format(line="pass", made=OUTER)) == []
    assert found("ESP516", NET.format(line="pass", made="pass")) == []
