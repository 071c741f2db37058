"""ESP105, ESP201, ESP202, ESP205, ESP208 and ESP209: what shapes show."""

from __future__ import annotations

import pytest

IMPORTS = """
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

"""
REGRESSION = """
class Points(Dataset):
    def __init__(self, x, y):
        self.x = torch.tensor(x, dtype=torch.float32)
        self.y = torch.tensor(y, dtype=torch.float32){column}

    def __getitem__(self, i):
        return {item}

class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x){squeezed}

x = np.random.randn(100, 5)
y = x[:, 0] + np.random.randn(100)
loader = DataLoader(Points(x, y), batch_size=4, shuffle=True)
model = Net().to("cuda")
criterion = nn.MSELoss()
for {batch} in loader:
    {body}
"""


def regression(body, *, column="", item="self.x[i], self.y[i]", squeezed="", batch="a, b"):
    return IMPORTS + REGRESSION.format(body=body, column=column, item=item, squeezed=squeezed, batch=batch)


WRONG = {
    "a criterion": {"body": "loss = criterion(model(a), b)"},
    "moved first": {"body": "a, b = a.cuda(), b.cuda()\n    out = model(a)\n    loss = criterion(out, b)"},
    "functional": {"body": "loss = F.smooth_l1_loss(input=model(a), target=b)"},
    "by hand": {"body": "loss = ((model(a) - b) ** 2).mean()"},
    "by hand, named": {"body": "gap = model(a) - b\n    loss = gap.pow(2).mean()"},
    "absolute": {"body": "loss = torch.abs(b - model(a)).mean()"},
    "binary": {"body": "loss = nn.BCEWithLogitsLoss()(model(a), b)"},
    "after a sigmoid": {"body": "loss = F.binary_cross_entropy(torch.sigmoid(model(a)), b)"},
    "a dictionary": {
        "body": "loss = criterion(model(b['x']), b['y'])",
        "item": "{'x': self.x[i], 'y': self.y[i]}",
        "batch": "b",
    },
    "indexed": {"body": "loss = criterion(model(b[0]), b[1])", "batch": "b"},
    "plain numbers": {"body": "loss = criterion(model(a), b)", "item": "self.x[i], float(self.y[i])"},
    "the other way round": {
        "body": "loss = criterion(model(a), b)",
        "column": ".unsqueeze(1)",
        "squeezed": ".squeeze(-1)",
    },
    "one class": {"body": "loss = F.cross_entropy(model(a), b.long())"},
    "an accuracy": {"body": "right = ((model(a) > 0.5) == b).float().mean()"},
}
RIGHT = {
    "squeezed by the model": {"body": "loss = criterion(model(a), b)", "squeezed": ".squeeze(-1)"},
    "squeezed in the loop": {"body": "loss = criterion(model(a).squeeze(), b)"},
    "flattened": {"body": "loss = criterion(model(a).flatten(), b)"},
    "viewed": {"body": "loss = criterion(model(a).view(-1), b)"},
    "a column": {"body": "loss = criterion(model(a)[:, 0], b)"},
    "a target with a column": {"body": "loss = criterion(model(a), b)", "column": ".view(-1, 1)"},
    "unsqueezed": {"body": "loss = criterion(model(a), b.unsqueeze(1))"},
    "a new axis": {"body": "loss = criterion(model(a), b[:, None])"},
    "view_as": {"body": "loss = criterion(model(a), b.view_as(model(a)))"},
    "a slice of one": {"body": "loss = criterion(model(a), b)", "item": "self.x[i], self.y[i : i + 1]"},
    "a list of one": {"body": "loss = criterion(model(a), b)", "item": "self.x[i], torch.tensor([self.y[i]])"},
    "asked first": {
        "body": "o = model(a)\n    if o.shape != b.shape:\n        o = o.squeeze(-1)\n    loss = criterion(o, b)"
    },
    "pairs on purpose": {"body": "d = ((a.unsqueeze(1) - a.unsqueeze(0)) ** 2).sum(-1)"},
    "a constant": {"body": "loss = criterion(model(a), torch.tensor(0.5))"},
    "zeros like it": {"body": "loss = criterion(model(a), torch.zeros_like(model(a)))"},
}


@pytest.mark.parametrize("parts", WRONG.values(), ids=WRONG)
def test_a_loss_of_shapes_that_do_not_belong_together_is_found(found, parts):
    assert len(found("ESP105", regression(**parts))) == 1


@pytest.mark.parametrize("parts", RIGHT.values(), ids=RIGHT)
def test_a_loss_of_equal_shapes_is_left_alone(found, parts):
    assert found("ESP105", regression(**parts)) == []


Q_LEARNING = """
class Q(nn.Module):
    def __init__(self, states, actions):
        super().__init__()
        self.a = nn.Linear(states, 64)
        self.b = nn.Linear(64, actions)

    def forward(self, s):
        return self.b(torch.relu(self.a(s)))

class Agent:
    def __init__(self):
        self.q, self.target = Q(4, 2), Q(4, 2)

    def learn(self, batch):
        states, actions, rewards, following, dones = zip(*batch)
        rewards = torch.tensor(rewards, dtype=torch.float32)
        dones = torch.tensor(dones, dtype=torch.float32)
        q = self.q(torch.stack(states)).gather(1, torch.tensor(actions).unsqueeze(1)){squeezed}
        best = self.target(torch.stack(following)).max(1)[0].detach()
        loss = F.mse_loss(q, rewards + 0.99 * best * (1 - dones))
"""


def test_the_column_of_chosen_actions_against_a_row_of_rewards_is_found(found):
    assert len(found("ESP105", IMPORTS + Q_LEARNING.format(squeezed=""))) == 1
    assert found("ESP105", IMPORTS + Q_LEARNING.format(squeezed=".squeeze(1)")) == []


def test_a_model_and_a_loader_in_other_files_are_followed(found):
    sources = {
        "net.py": "from torch import nn\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.head = nn.Linear(8, 1)\n\n    def forward(self, x):\n        return self.head(x)\n",
        "data.py": "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n\ndef loader():\n"
        "    return DataLoader(TensorDataset(torch.randn(64, 8), torch.randn(64)), batch_size=8)\n",
        "train.py": "import torch.nn as nn\nfrom data import loader\nfrom net import Net\n\n"
        "def fit(net, batches, loss_fn):\n    for x, y in batches:\n        loss = loss_fn(net(x), y)\n\n"
        "fit(Net(), loader(), nn.L1Loss())\n",
    }
    assert found("ESP105", sources) == ["loss = loss_fn(net(x), y)"]
    sources["net.py"] = sources["net.py"].replace("self.head(x)\n", "self.head(x).squeeze(-1)\n")
    assert found("ESP105", sources) == []


@pytest.mark.parametrize(
    ("loss", "count"),
    [
        ("F.cross_entropy(torch.randn(8, 3), torch.randint(0, 3, (8, 1)))", 1),
        ("F.cross_entropy(torch.randn(8, 3), F.one_hot(y, 3))", 1),
        ("F.cross_entropy(nn.Linear(4, 3)(x), y.unsqueeze(1))", 1),
        ("F.nll_loss(torch.randn(8, 3), torch.zeros(8, 1))", 1),
        ("F.cross_entropy(torch.randn(8, 5, 3), torch.zeros(8, 5))", 1),
        ("F.cross_entropy(torch.randn(2, 3, 8, 8), torch.zeros(2, 1, 8, 8))", 1),
        ("F.cross_entropy(torch.randn(8, 3), F.one_hot(y, 3).float())", 0),
        ("F.cross_entropy(torch.randn(8, 3), torch.randint(0, 3, (8,)))", 0),
        ("F.cross_entropy(torch.randn(8, 3, 5), torch.zeros(8, 5))", 0),
        ("F.cross_entropy(torch.randn(2, 3, 8, 8), torch.zeros(2, 8, 8))", 0),
        ("F.cross_entropy(model(x), y)", 0),
    ],
)
def test_targets_of_classes(found, loss, count):
    assert len(found("ESP105", f"{IMPORTS}loss = {loss}")) == count


HEADS = """
class Heads(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.width = heads, dim // heads
        self.q = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        n = x.size(0)
        q = self.q(x).view(n, -1, self.heads, self.width).transpose(1, 2)
        v = self.v(x).view(n, -1, self.heads, self.width).transpose(1, 2)
        scores = torch.matmul(q, q.transpose(-2, -1)) / 8
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = F.softmax(scores, dim={axis})
        out = torch.matmul(F.dropout(weights, 0.1), v).transpose(1, 2)
        return out{between}.view(n, -1, self.heads * self.width)
"""


def test_heads_that_are_merged_without_a_copy_are_found(found):
    assert len(found("ESP208", IMPORTS + HEADS.format(axis=-1, between=""))) == 1
    assert found("ESP208", IMPORTS + HEADS.format(axis=-1, between=".contiguous()")) == []


@pytest.mark.parametrize(("axis", "count"), [(-2, 1), (2, 1), (1, 1), (-1, 0), (3, 0)])
def test_weights_over_the_axis_of_the_queries_are_found(found, axis, count):
    assert len(found("ESP202", IMPORTS + HEADS.format(axis=axis, between=".contiguous()"))) == count


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("x.permute(0, 2, 3, 1).view(-1, 3)", 1),
        ("x.transpose(1, 2).view(x.size(0), -1)", 1),
        ("x.permute(0, 2, 1).relu().view(8, -1)", 1),
        ("torch.transpose(x, 1, 2).view(n, -1)", 1),
        ("x.t().view(-1)", 1),
        ("torch.randn(3, 4).T.view(12)", 1),
        ("x[:, :-1, :].view(-1, n)", 1),
        ("torch.zeros(1, 5, 6).expand(n, -1, -1).view(-1, 6)", 1),
        ("x.unsqueeze(1).expand(-1, n, -1).view(-1, 7)", 1),
        ("nn.LSTM(4, 6, batch_first=True)(x)[0].view(-1, 6)", 1),
        ("x.permute(0, 2, 3, 1).reshape(-1, 3)", 0),
        ("x.permute(0, 2, 3, 1).contiguous().view(-1, 3)", 0),
        ("x.permute(0, 2, 3, 1).view(n, -1, 3)", 0),
        ("nn.LSTM(9, 8)(nn.Conv2d(3, 1, 3)(x).view(-1, 64))", 0),
        ("torch.randn(4, 1, 5).transpose(0, 1).view(20)", 0),
        ("x.transpose(2, 3).view(n * n, 3, 4, 5)", 0),
        ("x.t().view(2, -1)", 0),
        ("x.transpose(1, 2).view(n, n, 4, 5)", 0),
        ("x.unsqueeze(1).repeat(1, n, 1).view(-1, 7)", 0),
        ("F.scaled_dot_product_attention(x, x, x).transpose(1, 2).view(n, n, 64)", 0),
        ("x.view(n, -1)", 0),
        ("nn.Linear(4, 6)(x.transpose(1, 2)).view(-1, 6)", 0),
    ],
)
def test_a_view_that_needs_a_copy_is_found(found, expression, count):
    assert len(found("ESP208", f"{IMPORTS}def f(x, n):\n    return {expression}\n")) == count


READ = "    B, C, H, W = x.shape\n"


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (READ + "    return x.view(B, H, W, C)\n", 1),
        (READ + "    return x.reshape(B, H * W, C)\n", 1),
        (READ + "    return x.permute(0, 2, 3, 1).reshape(B, C, H * W)\n", 1),
        ("    b, t, d = x.size()\n    return torch.reshape(x, (t, b, -1))\n", 1),
        ("    b, n, c = x.shape\n    return x.reshape(b, c, h, w)\n", 1),
        ("    return x.view(x.size(0), x.size(2), x.size(1))\n", 1),
        ("    t, b = x.shape[0], x.shape[1]\n    return x.view(b, t, -1)\n", 1),
        (READ + "    return x.permute(0, 2, 3, 1).reshape(B, H * W, C)\n", 0),
        (READ + "    return x.view(B, 2, C // 2, H, W)\n", 0),
        (READ + "    return x.view(B * C, H, W)\n", 0),
        (READ + "    return x.view(B, C, -1).transpose(1, 2)\n", 0),
        ("    b, n, c = x.shape\n    return x.reshape(b, c)\n", 0),
        ("    b, t = x.size(0), x.size(1)\n    x = x.transpose(0, 1)\n    return x.reshape(t, b, -1)\n", 0),
        (READ + "    x = x.reshape(B, C, W, H)\n    x = x[:, :, 1:]\n    return x.reshape(B, C, H, W - 1)\n", 0),
    ],
)
def test_a_view_that_was_meant_to_be_a_permutation_is_found(found, lines, count):
    assert len(found("ESP209", f"{IMPORTS}def f(x, h, w):\n{lines}")) == count


LAYERS = """
class Block(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 3, padding=1)

    def forward(self, x):
        return F.relu(self.conv(x))

class Net(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        {made}

    def forward(self, x, y=None):
        return {used}
"""


@pytest.mark.parametrize(
    ("made", "used", "count"),
    [
        ("self.a, self.b = nn.Linear(8, 16), nn.Linear(8, 4)", "self.b(F.relu(self.a(x)))", 1),
        ("self.a = nn.Conv2d(3, 8, 3); self.b = nn.BatchNorm2d(16)", "self.b(self.a(x))", 1),
        ("self.a = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(16, 4, 1))", "self.a(x)", 1),
        ("self.a = nn.Sequential(Block(3, 16), Block(32, 8))", "self.a(x)", 1),
        ("self.a = Block(3, 16); self.b = Block(8, 3)", "self.b(self.a(x))", 1),
        ("self.a = nn.LSTM(4, width, bidirectional=True); self.b = nn.Linear(width, 2)", "self.b(self.a(x)[0])", 1),
        ("self.a = nn.LSTM(4, 8, batch_first=True); self.b = nn.Linear(16, 2)", "self.b(self.a(x)[0][:, -1])", 1),
        ("self.a = nn.Embedding(9, 32); self.b = nn.LayerNorm(64)", "self.b(self.a(x))", 1),
        (
            "self.a = nn.Linear(8, 16); self.b = nn.Linear(16, 2)",
            "self.b(torch.cat([self.a(x), self.a(y)], dim=-1))",
            1,
        ),
        ("self.a = nn.Conv2d(3, 8, 3); self.b = nn.Linear(64, 2)", "self.b(self.a(x).mean(dim=(2, 3)))", 1),
        ("self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 4)", "self.b(F.relu(self.a(x)))", 0),
        ("self.a = nn.LSTM(4, width, bidirectional=True); self.b = nn.Linear(2 * width, 2)", "self.b(self.a(x)[0])", 0),
        ("self.a = nn.Linear(8, 16); self.b = nn.LazyLinear(4)", "self.b(self.a(x))", 0),
        ("self.a = nn.Linear(8, width); self.b = nn.Linear(width * 1, 4)", "self.b(self.a(x))", 0),
        ("self.a = nn.Linear(8, width); self.b = nn.Linear(self.a.out_features, 4)", "self.b(self.a(x))", 0),
        (
            "self.a = nn.Conv2d(3, 8, 3); self.b = nn.PixelShuffle(2); self.c = nn.Conv2d(2, 4, 1)",
            "self.c(self.b(self.a(x)))",
            0,
        ),
        ("self.a = nn.Linear(8, 16) if width else nn.Linear(8, 32); self.b = nn.Linear(32, 2)", "self.b(self.a(x))", 0),
    ],
)
def test_layers_that_cannot_follow_each_other_are_found(found, made, used, count):
    assert len(found("ESP205", IMPORTS + LAYERS.format(made=made, used=used))) == count


IMAGES = """
from torchvision import datasets, transforms

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d({channels}, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(16 * 14 * 14, 10)

    def forward(self, x):
        x = self.body(x)
        return self.head(x.view(x.size(0), -1))

steps = transforms.Compose([{steps}transforms.ToTensor(), transforms.Normalize(0.5, 0.5)])
loader = DataLoader(datasets.{data}("data", transform=steps), batch_size=64)
net = Net()
for x, y in loader:
    out = net(x)
"""


@pytest.mark.parametrize(
    ("data", "channels", "steps", "count"),
    [
        ("MNIST", 1, "", 0),
        ("CIFAR10", 3, "", 1),
        ("CIFAR10", 3, "transforms.Resize(28), ", 0),
        ("MNIST", 3, "", 1),
        ("ImageFolder", 3, "", 0),
    ],
)
def test_images_of_a_known_size_reach_the_layers(found, data, channels, steps, count):
    assert len(found("ESP205", IMPORTS + IMAGES.format(data=data, channels=channels, steps=steps))) == count


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ("net = nn.Sequential(nn.Linear(8, 4), nn.Softmax(dim=0))", 1),
        ("p = F.softmax(scores, dim=0)\nbest = p.argmax(dim=1)", 1),
        ("p = scores.log_softmax(1)\nv, i = p.max(dim=2)", 1),
        (
            "for x in DataLoader(TensorDataset(torch.randn(9, 8)), 3):\n    p = nn.Linear(8, 4)(x[0]).softmax(0)",
            1,
        ),
        ("w = torch.einsum('bid,bjd->bij', q, k).softmax(1)\no = torch.einsum('bij,bjd->bid', w, v)", 1),
        ("net = nn.Sequential(nn.Linear(8, 4), nn.Softmax(dim=-1))", 0),
        ("net = nn.Sequential(nn.Linear(8, 1), nn.Softmax(dim=0))", 0),
        ("p = F.softmax(scores, dim=1)\nbest = p.argmax(dim=1)", 0),
        ("p = torch.softmax(model(x)[0], dim=0)\ntop = p.topk(5)", 0),
        # Classes of queries, weighed over the queries: the softmax is over what is kept.
        ("w = q.softmax(-1)\no = torch.einsum('bqc,bqhw->bchw', w, v)", 0),
        ("w = torch.einsum('bid,bjd->bij', q, k).softmax(-1)\no = torch.einsum('bij,bjd->bid', w, v)", 0),
        ("w = (q @ k.transpose(-2, -1)).softmax(-2)\nw = w / w.sum(-1, keepdim=True)\no = w @ v", 0),
        ("w = F.softmax(torch.randn(5), dim=0)\no = w @ v", 0),
    ],
)
def test_a_softmax_along_another_axis_than_its_result_is_read_is_found(found, lines, count):
    assert len(found("ESP202", IMPORTS + lines)) == count


BUILT = {
    "net.py": "from torch import nn\n\ndef classifier(width, classes):\n    layers = []\n    for _ in range(3):\n"
    "        layers += [nn.Linear(width, width), nn.ReLU()]\n"
    "    return nn.Sequential(*layers, nn.Linear(width, classes), nn.Softmax(dim=-1))\n",
    "train.py": "from torch import nn\nfrom net import classifier\n\ndef fit(loader):\n    net = classifier(8, 3)\n"
    "    criterion = nn.CrossEntropyLoss()\n    for x, y in loader:\n        loss = criterion(net(x), y)\n",
}


def test_a_softmax_at_the_end_of_layers_gathered_elsewhere_is_found(found):
    assert found("ESP201", BUILT) == ["loss = criterion(net(x), y)"]
    right = BUILT | {"net.py": BUILT["net.py"].replace(", nn.Softmax(dim=-1))", ")")}
    assert found("ESP201", right) == []


VALUE = """
class Value(nn.Module):
    def __init__(self):
        super().__init__()
        self.v = nn.Linear(4, 1)

    def forward(self, s):
        return self.v(s)

"""


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ("x = torch.linspace(0, 1, 100)\nloss = F.mse_loss(Value()(x.unsqueeze(1)), torch.sin(x))", 1),
        ("x = torch.linspace(0, 1, 100).reshape(-1, 1)\nloss = F.mse_loss(Value()(x), torch.sin(x))", 0),
        ("r = torch.randn(9)\nloss = F.mse_loss(Value()(s9), r + Value()(s9))", 1),
        (
            "a = []\nfor r in rewards:\n    a.insert(0, float(r))\nloss = F.mse_loss(Value()(s9), torch.tensor(a))",
            1,
        ),
        (
            "d = dict(r=np.zeros(9))\nd = {k: torch.tensor(v) for k, v in d.items()}\nF.l1_loss(Value()(s9), d['r'])",
            1,
        ),
        ("def gap(a, b):\n    return (a - b).abs().mean()\n\nloss = gap(Value()(s9), torch.randn(9))", 1),
        ("w = nn.Parameter(torch.zeros(4, 1))\nloss = ((s9 @ w - torch.randn(9)) ** 2).mean()", 1),
        ("w = nn.Parameter(torch.zeros(4))\nloss = ((s9 @ w - torch.randn(9)) ** 2).mean()", 0),
        ("loss = F.binary_cross_entropy_with_logits(Value()(s9), torch.ones(s9.size(0)))", 1),
        ("loss = F.cross_entropy(nn.Linear(4, 5)(torch.randn(2, 3, 4)), y)", 1),
        ("loss = F.cross_entropy(nn.Linear(4, 5)(torch.randn(2, 3, 4)).transpose(1, 2), y)", 0),
    ],
)
def test_shapes_are_followed_through_values_of_all_kinds(found, lines, count):
    assert len(found("ESP105", f"{IMPORTS}{VALUE}s9 = torch.randn(9, 4)\n{lines}\n")) == count


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ("w = F.softmax(scores, dim=0)\nc = torch.bmm(w.unsqueeze(1), values)", 1),
        ("w = F.softmax(scores, dim=1)\nc = torch.bmm(w.unsqueeze(1), values)", 0),
        ("loss = F.kl_div(F.log_softmax(s / t, dim=0), F.softmax(u / t, dim=1))", 1),
        ("loss = F.kl_div(F.log_softmax(s / t, dim=1), F.softmax(u / t, dim=1))", 0),
        ("p = F.softmax(s, dim=0)\nh = -(p * p.log()).sum(dim=1)", 1),
        ("p = F.softmax(s, dim=1)\nh = -(p * p.log()).sum(dim=1)", 0),
        ("p = F.softmax(s[:, -1, :], dim=0)\nn = torch.multinomial(p, 1)", 1),
        ("p = F.softmax(s[0, -1], dim=0)\nn = torch.multinomial(p, 1)", 0),
    ],
)
def test_a_softmax_whose_result_is_used_along_another_axis_is_found(found, lines, count):
    assert (
        len(found("ESP202", f"{IMPORTS}def f(s, t, u, scores, values):\n    " + lines.replace("\n", "\n    "))) == count
    )


def test_classes_of_one_name_in_several_functions_are_not_mixed_up(found):
    one = "def f{n}():\n    class Net(nn.Module):\n        def __init__(self):\n            super().__init__()\n"
    one += "            self.a = nn.Linear({n}, 2)\n\n        def forward(self, x):\n            return self.a(x)\n\n"
    one += "    return Net()(torch.randn(5, {n}))\n\n"
    assert found("ESP205", IMPORTS + one.format(n=3) + one.format(n=7)) == []
