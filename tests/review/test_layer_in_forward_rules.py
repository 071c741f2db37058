"""Cases of ESP220, layers that a forward makes."""

from __future__ import annotations

import pytest

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F
import pytorch_lightning as pl


"""

WRONG = {
    "applied where it is made": (
        """
class Net(nn.Module):
    def forward(self, x):
        x = F.relu(x)
        return nn.Linear(x.shape[1], 10)(x)
""",
        ["return nn.Linear(x.shape[1], 10)(x)"],
    ),
    "moved to the device": (
        """
class Net(nn.Module):
    def forward(self, x):
        project = nn.Conv2d(x.size(1), 64, kernel_size=1).to(x.device)
        return F.relu(project(x))
""",
        ["project = nn.Conv2d(x.size(1), 64, kernel_size=1).to(x.device)"],
    ),
    "an attribute, new in each call": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 16)

    def forward(self, x):
        h = self.embed(x).flatten(1)
        self.out = nn.Linear(h.shape[-1], 2)
        return self.out(h)
""",
        ["self.out = nn.Linear(h.shape[-1], 2)"],
    ),
    "a helper function": (
        """
def block(x, width):
    conv = nn.Conv1d(x.shape[1], width, 3, padding=1)
    nn.init.kaiming_normal_(conv.weight)
    return torch.relu(conv(x))


class Net(nn.Module):
    def forward(self, x):
        return block(block(x, 16), 32)
""",
        ["conv = nn.Conv1d(x.shape[1], width, 3, padding=1)"],
    ),
    "a sequence made by a method of a Lightning module": (
        """
class Net(pl.LightningModule):
    def _head(self, h):
        return nn.Sequential(nn.ReLU(), nn.Linear(h.size(-1), 4))(h)

    def training_step(self, batch, i):
        x, y = batch
        return F.cross_entropy(self._head(x), y)
""",
        ["return nn.Sequential(nn.ReLU(), nn.Linear(h.size(-1), 4))(h)"],
    ),
    "a module of the project": (
        """
class Attend(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q = nn.Linear(d, d)

    def forward(self, x):
        return self.q(x)


class Net(nn.Module):
    def forward(self, x):
        attend = Attend(x.shape[-1])
        return attend(x) + x
""",
        ["attend = Attend(x.shape[-1])"],
    ),
    "a normalization": (
        """
class Net(nn.Module):
    def forward(self, x):
        return nn.LayerNorm(x.size()[1:])(x)
""",
        ["return nn.LayerNorm(x.size()[1:])(x)"],
    ),
    "a list of layers": (
        """
class Net(nn.Module):
    def forward(self, x):
        towers = nn.ModuleList([nn.Linear(x.shape[-1], x.shape[-1]) for _ in range(2)])
        x = towers[0](x)
        return towers[1](x)
""",
        ["towers = nn.ModuleList([nn.Linear(x.shape[-1], x.shape[-1]) for _ in range(2)])"],
    ),
    "a plain list, run in turn": (
        """
class Net(nn.Module):
    def forward(self, x):
        layers = [nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)]
        for layer in layers:
            x = layer(x)
        return x
""",
        ["layers = [nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)]"],
    ),
    "in a loop": (
        """
class Net(nn.Module):
    def forward(self, x):
        for width in (8, 16):
            layer = nn.Linear(x.shape[-1], width).cuda()
            x = layer(x)
        return x
""",
        ["layer = nn.Linear(x.shape[-1], width).cuda()"],
    ),
}

RIGHT = {
    "made once, when the size is known": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = None

    def forward(self, x):
        if self.out is None:
            self.out = nn.Linear(x.shape[-1], 2)
        return self.out(x)
""",
    "a fixed filter": """
class Blur(nn.Module):
    def forward(self, x):
        conv = nn.Conv2d(1, 1, 3, bias=False)
        conv.weight.data.fill_(1 / 9)
        return conv(x)
""",
    "weights of another layer": """
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)

    def forward(self, x):
        out = nn.Linear(4, 10, bias=False)
        out.weight = self.embed.weight
        return out(self.embed(x))
""",
    "layers without weights": """
class Net(nn.Module):
    def forward(self, x):
        x = nn.ReLU()(x)
        x = nn.InstanceNorm2d(3)(x)
        x = nn.LayerNorm(x.shape[1:], elementwise_affine=False)(x)
        return nn.Softmax(dim=-1)(nn.MaxPool2d(2)(x))
""",
    "a random convolution that augments": """
class RandConv(nn.Module):
    def forward(self, x):
        return nn.Conv2d(3, 3, 3, padding=1).to(x.device)(x)
""",
    "a random target without gradients": """
class Net(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            projection = nn.Linear(x.shape[-1], 8)
            return projection(x)
""",
    "a constructor that tries its parts": """
class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        shape = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten())(torch.zeros(1, 3, size, size)).shape
        self.out = nn.Linear(shape[1], 2)

    def forward(self, x):
        return self.out(self.conv(x).flatten(1))
""",
    "a factory that returns its layer": """
def head(n):
    layer = nn.Linear(n, 2)
    print(layer(torch.zeros(1, n)).shape)
    return layer


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = head(4)

    def forward(self, x):
        return self.out(x)
""",
    "layers of the module in a list": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        layers = [self.a, nn.ReLU(), self.b]
        for layer in layers:
            x = layer(x)
        return x
""",
    "a list that is kept": """
class Net(nn.Module):
    def forward(self, x):
        layers = [nn.Linear(4, 4)]
        for layer in layers:
            x = layer(x)
        return x, layers
""",
    "functional weights": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        return F.linear(x, self.weight)
""",
    "a layer that is grown and handed to an optimizer": """
class Net(nn.Module):
    def forward(self, x):
        layer = nn.Linear(4, 4)
        self.optimizer.add_param_group({"params": layer.parameters()})
        return layer(x)
""",
}


@pytest.mark.parametrize(("body", "lines"), WRONG.values(), ids=WRONG)
def test_a_layer_that_a_forward_makes_and_runs_is_found(found, body, lines):
    assert found("ESP220", HEAD + body) == lines


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_layers_that_are_made_once_or_set_by_hand_are_left_alone(found, body):
    assert found("ESP220", HEAD + body) == []


def test_a_helper_of_another_file_is_found_where_it_makes_the_layer(found):
    files = {
        "parts.py": "from torch import nn\n\ndef project(x, n):\n    return nn.Linear(x.shape[-1], n)(x)\n",
        "net.py": (
            "from torch import nn\nfrom parts import project\n\n"
            "class Net(nn.Module):\n    def forward(self, x):\n        return project(x, 3)\n"
        ),
    }
    assert found("ESP220", files) == ["return nn.Linear(x.shape[-1], n)(x)"]
