"""ESP104, ESP106, ESP206 and ESP207 on tensors as people make, move, copy and change them."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from esper_agents.review.engine import review_sources


def module(forward: str, *, init: str = "pass", signature: str = "self, x") -> str:
    """Return a model with these lines in its constructor and its forward, moved to the GPU."""
    return (
        dedent(
            """
        import math

        import torch
        import torch.nn.functional as F
        from torch import nn

        class Net(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.layer = nn.Linear(8, 8)
                self.table = nn.Embedding(32, 8)
                self.rnn = nn.LSTM(8, 8, batch_first=True)
        """
        )
        + indent(init, " " * 8)
        + f"\n\n    def forward({signature}):\n"
        + indent(dedent(forward).strip(), " " * 8)
        + "\n\nmodel = Net(8).to('cuda')\n"
    )


MISMATCHED_FORWARDS = {
    "noise added": "return self.layer(x) + torch.randn(x.size(0), 8)",
    "noise by name": "noise = torch.randn(x.shape)\nreturn self.layer(x) + 0.1 * noise",
    "noise added in place": "y = self.layer(x)\ny += torch.randn(y.shape)\nreturn y",
    "a reparameterised sample": "std = torch.exp(self.layer(x))\neps = torch.randn(std.size())\nreturn eps * std",
    "a hidden state": "h = torch.zeros(1, x.size(0), 8)\nc = h.clone()\nreturn self.rnn(x, (h, c))[0]",
    "positions": "return self.layer(x) + self.table(torch.arange(x.size(1)))",
    "positions by name": "positions = torch.arange(x.size(1)).unsqueeze(0)\nreturn self.table(positions)",
    "a causal mask": (
        "scores = x @ x.transpose(1, 2)\n"
        "mask = torch.tril(torch.ones(x.size(1), x.size(1)))\n"
        "return scores.masked_fill(mask == 0, float('-inf'))"
    ),
    "joined": "pad = torch.zeros(x.size(0), 1, 8)\nreturn torch.cat([x, pad], dim=1)",
    "a filter": "kernel = torch.tensor([[[[1.0, 2.0, 1.0]]]])\nreturn F.conv2d(x, kernel)",
    "a grid": "grid = torch.zeros(x.size(0), 4, 4, 2)\nreturn F.grid_sample(x, grid)",
    "a type is no device": "noise = torch.rand(x.shape).to(torch.float16)\nreturn self.layer(x) * noise",
    "one element is no number": "return self.layer(x) * torch.rand(1)",
    "chosen": "return torch.where(x > 0, x, torch.zeros(8))",
    "compared": "return x.float() > torch.rand(x.shape)",
}
MATCHED_FORWARDS = {
    "device of the input": "return self.layer(x) + torch.randn(x.size(0), 8, device=x.device)",
    "like": "return self.layer(x) + torch.randn_like(x)",
    "new": "return self.layer(x) + x.new_zeros(8)",
    "moved": "noise = torch.randn(x.shape).to(x.device)\nreturn self.layer(x) + noise",
    "moved to a tensor": "noise = torch.randn(x.shape).to(x)\nreturn self.layer(x) + noise",
    "type as": "noise = torch.randn(x.shape).type_as(x)\nreturn self.layer(x) + noise",
    "cuda": "noise = torch.randn(x.shape).cuda()\nreturn self.layer(x) + noise",
    "a number": "return self.layer(x) * torch.tensor(0.5)",
    "a number without dimensions": "return self.layer(x) * torch.rand(())",
    "an item": "scale = torch.rand(1).item()\nreturn self.layer(x) * scale",
    "a sum": "total = torch.linspace(0, 1, 4).sum()\nreturn self.layer(x) * total",
    "an index": "order = torch.randperm(x.size(0))\nreturn self.layer(x[order])",
    "a decision": "if torch.rand(1) < 0.5:\n    x = x.flip(-1)\nreturn self.layer(x)",
    "numbers of a list": "rates = [r.item() for r in torch.linspace(0, 1, 4)]\nreturn self.layer(x) * rates[0]",
    "a loop over numbers": "for i in torch.arange(3):\n    x = x * i\nreturn x",
    "options that say it": "options = {'device': x.device}\nreturn x + torch.zeros(8, **options)",
    "a device that is around": "with torch.device(x.device):\n    noise = torch.randn(x.shape)\nreturn x + noise",
    "host with host": "a = torch.ones(3)\nb = a + torch.zeros(3)\nreturn self.layer(x), b",
    "moved in one line": "mask = torch.ones(3).to(x.device)\nreturn x.masked_fill(mask == 0, 0.0)",
    "assigned into": "x[:, 0] = torch.zeros(8)\nreturn self.layer(x)",
    "a shape": "size = torch.tensor([1, 2])\nreturn x.view(*size.tolist())",
}


@pytest.mark.parametrize("forward", MISMATCHED_FORWARDS.values(), ids=MISMATCHED_FORWARDS)
def test_tensors_made_on_the_host_in_forward_are_found(found, forward):
    assert len(found("ESP104", module(forward))) == 1


@pytest.mark.parametrize("forward", MATCHED_FORWARDS.values(), ids=MATCHED_FORWARDS)
def test_tensors_that_go_where_the_input_is_are_left_alone(found, forward):
    assert found("ESP104", module(forward)) == []


def test_without_a_gpu_in_sight_nothing_is_said(found):
    source = module(MISMATCHED_FORWARDS["noise added"])
    assert found("ESP104", source.replace(".to('cuda')", "")) == []
    assert found("ESP104", source + "torch.set_default_device('cuda')\n") == []


PLAIN = ["self.mask = torch.ones(8)", "mask = torch.tril(torch.ones(8, 8))\nself.mask = mask.view(1, 8, 8)"]
KEPT = [
    "self.register_buffer('mask', torch.ones(8))",
    "self.mask = nn.Parameter(torch.ones(8))",
    "self.mask = nn.Buffer(torch.ones(8))",
    "self.mask = torch.ones(8).cuda()",
    "self.mask = torch.tensor(1.0)",
]


@pytest.mark.parametrize("init", PLAIN)
def test_a_plain_attribute_stays_on_the_host(found, init):
    assert len(found("ESP104", module("return self.layer(x) * self.mask", init=init))) == 1
    assert found("ESP104", module("return self.layer(x) * self.mask.to(x.device)", init=init)) == []
    assert found("ESP104", module("mask = self.mask.to(x)\nreturn self.layer(x) * mask", init=init)) == []


@pytest.mark.parametrize("init", KEPT)
def test_buffers_and_parameters_go_with_the_module(found, init):
    assert found("ESP104", module("return self.layer(x) * self.mask", init=init)) == []


def test_a_helper_that_makes_a_mask_is_followed(found):
    helper = "def causal(n):\n    return torch.triu(torch.ones(n, n), diagonal=1)\n"
    body = "scores = x @ x.transpose(1, 2)\nreturn scores.masked_fill(causal(x.size(1)) == 1, -1e9)"
    assert len(found("ESP104", "import torch\n" + helper + module(body))) == 1
    told = helper.replace("diagonal=1)", "diagonal=1).cuda()")
    assert found("ESP104", "import torch\n" + told + module(body)) == []


TRAINING = """
import torch
from torch import nn

def train(loader, device):
    model = nn.Linear(8, 2).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for {drawn} in {over}:
        {move}
        optimizer.zero_grad()
        loss = criterion(model({x}), {y})
        loss.backward()
        optimizer.step()
"""


def training(move: str, drawn: str = "x, y", over: str = "loader", x: str = "x", y: str = "y") -> str:
    return TRAINING.format(move=move, drawn=drawn, over=over, x=x, y=y)


STAYED = [
    training("x = x.to(device)"),
    training("x = x.to(device)", drawn="i, (x, y)", over="enumerate(loader)"),
    training("x = x.to(device, non_blocking=True)", over="tqdm(train_loader)"),
    training("y = y.to(device)"),
    training("x = batch['x'].to(device)", drawn="batch", y="batch['y']"),
    training("x = batch[0].to(device); y = batch[1]", drawn="batch"),
    training("x.to(device); y.to(device)"),
    training("x, y = batch; x = x.to(device)", drawn="batch"),
    training("x = x.to(device); y = torch.ones(8, 2)"),
]
MOVED = [
    training("x, y = x.to(device), y.to(device)"),
    training("x = x.to(device); y = y.to(device)"),
    training("x = x.to(device); y = y.to(device).float()"),
    training("x, y = (t.to(device) for t in (x, y))"),
    training("x, y = to_device(x, y)"),
    training("x = batch['x'].to(device)", drawn="batch", y="batch['y'].to(device)"),
    training("batch = {k: v.to(device) for k, v in batch.items()}", drawn="batch", x="batch['x']", y="batch['y']"),
    training("batch = batch.to(device)", drawn="batch", x="batch.x", y="batch.y"),
    training("batch.to(device)", drawn="batch", x="batch.x", y="batch.y"),
    training("x, y = prefetch(x, y)"),
    training("pass"),
    "import accelerate\n" + training("x = x.to(device)"),
]


@pytest.mark.parametrize("source", STAYED)
def test_a_batch_of_which_a_part_stays_on_the_host_is_found(found, source):
    assert len(found("ESP104", source)) >= 1


@pytest.mark.parametrize("source", MOVED)
def test_batches_that_are_moved_are_left_alone(found, source):
    assert found("ESP104", source) == []


WRITTEN = {
    "a step by hand": "w = torch.zeros(3, requires_grad=True)\nfor x in data:\n    w -= 0.1 * w.grad\n",
    "a method": "w = torch.randn(3, requires_grad=True)\nw.sub_(0.1 * w.grad)\n",
    "a parameter": "w = nn.Parameter(torch.zeros(3))\nw.fill_(1.0)\n",
    "an element": "w = nn.Parameter(torch.zeros(3))\nw[0] = 1.0\n",
    "a slice of a view": "w = nn.Parameter(torch.zeros(3, 3))\nw[0].zero_()\n",
    "switched on before": "w = torch.zeros(3)\nw.requires_grad_()\nw += 1\n",
    "set before": "w = torch.zeros(3)\nw.requires_grad = True\nw += 1\n",
    "an attack": "def f(x):\n    a = x.clone().detach().requires_grad_(True)\n    a += 0.1 * a.grad.sign()\n",
    "a layer": "layer = nn.Linear(3, 3)\nlayer.weight.fill_(0.0)\n",
    "a row of an embedding": "table = nn.Embedding(3, 3)\ntable.weight[0] = 0\n",
    "an initialiser": "def init(m):\n    if isinstance(m, nn.Linear):\n        m.weight.normal_(0, 0.02)\n",
    "all parameters": "for p in model.parameters():\n    p -= 0.1 * p.grad\n",
    "all parameters by name": "for name, p in model.named_parameters():\n    p.add_(p.grad, alpha=-0.1)\n",
    "an average of weights": "for a, b in zip(ema.parameters(), model.parameters()):\n    a.mul_(0.9).add_(b)\n",
    "a class": (
        "class A(nn.Module):\n"
        "    def __init__(self):\n"
        "        self.scale = nn.Parameter(torch.ones(1))\n\n"
        "    def forward(self, x):\n"
        "        self.scale.clamp_(0, 1)\n"
    ),
}
NOT_WRITTEN = {
    "no_grad": "w = torch.zeros(3, requires_grad=True)\nwith torch.no_grad():\n    w -= 0.1 * w.grad\n",
    "a decorator": "@torch.no_grad()\ndef f(model):\n    for p in model.parameters():\n        p -= 0.1 * p.grad\n",
    "data": "w = torch.zeros(3, requires_grad=True)\nw.data -= 0.1 * w.grad\nw.data[0] = 1\nw.data.add_(1)\n",
    "the gradient": "w = nn.Parameter(torch.zeros(3))\nw.grad.zero_()\nw.grad += 1\nw.grad[0] = 2\n",
    "before": "w = torch.zeros(3)\nw[0] = 1\nw += 1\nw.requires_grad_()\n",
    "no leaf": "w = torch.zeros(3, requires_grad=True)\ny = w * 2\ny += 1\ny[0] = 3\n",
    "rebound": "w = torch.zeros(3, requires_grad=True)\nw = w * 2\nw += 1\n",
    "frozen": "w = nn.Parameter(torch.zeros(3), requires_grad=False)\nw += 1\n",
    "off again": "w = torch.zeros(3, requires_grad=True)\nw.requires_grad_(False)\nw += 1\n",
    "init": "layer = nn.Linear(3, 3)\nnn.init.normal_(layer.weight)\nnn.init.zeros_(layer.bias)\n",
    "a buffer": (
        "class A(nn.Module):\n"
        "    def __init__(self):\n"
        "        self.register_buffer('scale', torch.ones(1))\n\n"
        "    def forward(self, x):\n"
        "        self.scale.clamp_(0, 1)\n"
        "        self.scale += 1\n"
    ),
    "a buffer of a layer": "layer = nn.BatchNorm1d(3)\nlayer.running_mean.zero_()\nlayer.running_mean[0] = 1\n",
    "plain numbers": "total = 0\nfor x in data:\n    total += x\n",
    "a caller": (
        "def shift(w=None):\n    w = nn.Parameter(torch.ones(1))\n    w += 1\n\n\nwith torch.no_grad():\n    shift()\n"
    ),
    "a frozen average": (
        "ema.requires_grad_(False)\nfor a, b in zip(ema.parameters(), model.parameters()):\n    a.mul_(0.9).add_(b)\n"
    ),
    "under inference": "w = nn.Parameter(torch.ones(1))\nwith torch.inference_mode():\n    w.add_(1)\n",
}
HEAD = "import torch\nfrom torch import nn\n\n"


@pytest.mark.parametrize("source", WRITTEN.values(), ids=WRITTEN)
def test_leaves_that_are_written_in_place_are_found(found, source):
    assert len(found("ESP106", HEAD + source)) == 1


@pytest.mark.parametrize("source", NOT_WRITTEN.values(), ids=NOT_WRITTEN)
def test_writes_that_autograd_allows_are_left_alone(found, source):
    assert found("ESP106", HEAD + source) == []


LOST = {
    "a list of losses": "losses = [criterion(model(x), y) for x, y in parts]\nloss = torch.tensor(losses).sum()",
    "appended losses": (
        "losses = []\nfor x, y in parts:\n    losses.append(criterion(model(x), y))\n"
        "loss = torch.tensor(losses, requires_grad=True).mean()"
    ),
    "two terms": "a = F.mse_loss(model(x), y)\nb = F.l1_loss(model(x), y)\nloss = torch.tensor([a, b]).sum()",
    "one loss": "loss = torch.tensor(F.mse_loss(model(x), y), requires_grad=True)",
    "scores": "scores = model(x)\nscores = torch.tensor(scores)\nloss = criterion(scores, y)",
    "a term below a minus": "p = dist(model(x)).log_prob(y)\nloss = torch.tensor([-F.nll_loss(model(x), y)]).sum()",
    "kept on an object": "loss = (torch.tensor(self.log_probs) * y).sum()",
    "an old name": "losses = [criterion(model(x), y) for x, y in parts]\nloss = torch.FloatTensor(losses).sum()",
}
NOT_LOST = {
    "numbers": "loss = criterion(model(x), y)\nweights = torch.tensor([0.5, 0.5])\nloss = loss * weights.sum()",
    "items": "loss = criterion(model(x), y)\nvalues = torch.tensor([loss.item()])",
    "an array": "x = torch.tensor(np.zeros(3))\nloss = criterion(model(x), y)",
    "labels": "y = torch.tensor(labels)\nloss = criterion(model(x), y)",
    "stacked": "losses = [criterion(model(x), y) for x, y in parts]\nloss = torch.stack(losses).sum()",
    "sizes": "n = torch.tensor(x.size(0))\nloss = criterion(model(x), y) / n",
}


@pytest.mark.parametrize("body", LOST.values(), ids=LOST)
def test_losses_that_are_wrapped_anew_are_found(found, body):
    head = "import numpy as np\nimport torch\nimport torch.nn.functional as F\n\ndef step(model, parts, x, y):\n"
    assert len(found("ESP206", head + indent(body, "    ") + "\n    loss.backward()\n")) == 1


@pytest.mark.parametrize("body", NOT_LOST.values(), ids=NOT_LOST)
def test_tensors_made_of_numbers_are_left_alone(found, body):
    head = "import numpy as np\nimport torch\nimport torch.nn.functional as F\n\ndef step(model, parts, x, y):\n"
    assert found("ESP206", head + indent(body, "    ") + "\n    loss.backward()\n") == []


SHARED = {
    "changed before it is used": "a = np.zeros(3)\nt = torch.from_numpy(a)\na[0] = 1\nprint(t)",
    "added to": "t = torch.from_numpy(a)\na += 1\nuse(t)",
    "filled": "t = torch.from_numpy(a)\na.fill(0)\nuse(t)",
    "shuffled": "t = torch.from_numpy(a)\nnp.random.shuffle(a)\nuse(t)",
    "the tensor is changed": "t = torch.from_numpy(a)\nt.mul_(2)\nuse(a)",
    "the tensor is written": "t = torch.from_numpy(a)\nt[0] = 2\nreturn a, t",
    "as_tensor of an array": "a = np.zeros(3)\nt = torch.as_tensor(a)\na[0] = 1\nuse(t)",
    "a buffer in a loop": "for x in data:\n    a[:] = x\n    found.append(torch.from_numpy(a))",
    "a buffer that is yielded": "for x in data:\n    a[:] = x\n    yield torch.from_numpy(a).unsqueeze(0)",
    "an array of a tensor": "b = t.numpy()\nt.zero_()\nuse(b)",
    "an array of a detached tensor": "b = t.detach().numpy()\nt += 1\nuse(b)",
}
NOT_SHARED = {
    "cloned": "t = torch.from_numpy(a).clone()\na[0] = 1\nuse(t)",
    "copied": "t = torch.from_numpy(a.copy())\na[0] = 1\nuse(t)",
    "another type": "t = torch.from_numpy(a).float()\na[0] = 1\nuse(t)",
    "used before": "t = torch.from_numpy(a)\nuse(t)\na[0] = 1",
    "changed before": "a[0] = 1\nt = torch.from_numpy(a)\nuse(t)",
    "a new array every time": "for x in data:\n    a = make(x)\n    a[0] = 1\n    found.append(torch.from_numpy(a))",
    "rebound": "t = torch.from_numpy(a)\na = other()\na[0] = 1\nuse(t)",
    "used up in the round": "for x in data:\n    a[:] = x\n    use(torch.from_numpy(a).sum())",
    "a list": "a = [1, 2]\nt = torch.as_tensor(a)\na[0] = 2\nuse(t)",
    "copied to the host": "b = t.detach().cpu().numpy()\nt += 1\nuse(b)",
    "moved": "t = torch.from_numpy(a).to(device)\na[0] = 1\nuse(t)",
    "only the tensor goes on": "t = torch.from_numpy(a)\nt.mul_(2)\nuse(t)",
}


@pytest.mark.parametrize("body", SHARED.values(), ids=SHARED)
def test_shared_memory_that_changes_is_found(found, body):
    head = "import numpy as np\nimport torch\n\ndef f(a, t, data, found):\n"
    assert len(found("ESP207", head + indent(body, "    ") + "\n")) == 1


@pytest.mark.parametrize("body", NOT_SHARED.values(), ids=NOT_SHARED)
def test_memory_that_is_copied_or_used_in_time_is_left_alone(found, body):
    head = "import numpy as np\nimport torch\n\ndef f(a, t, data, found):\n"
    assert found("ESP207", head + indent(body, "    ") + "\n") == []


COPIED = {
    "a batch": "for x, y in loader:\n    x = torch.tensor(x)\n    loss = criterion(model(x), y)",
    "a target": "for x, y in loader:\n    y = torch.tensor(y)\n    loss = criterion(model(x), y)",
    "of an array already": "t = torch.from_numpy(a)\nu = torch.tensor(t, dtype=torch.float32)",
    "a state": "for x, y in loader:\n    with torch.no_grad():\n        z = torch.tensor(model(x))",
}


@pytest.mark.parametrize("body", COPIED.values(), ids=COPIED)
def test_copies_of_tensors_that_lose_no_graph_are_advice(body):
    source = "import torch\n\ndef step(model, loader, a):\n" + indent(body, "    ") + "\n    loss.backward()\n"
    claims = review_sources({"train.py": source}, rules=["ESP206"]).claims
    assert [str(claim.severity) for claim in claims] == ["suggestion"]


def test_what_is_asked_whether_it_is_a_tensor_is_no_copy(found):
    source = "import torch\n\ndef f(x: torch.Tensor):\n    if not torch.is_tensor(x):\n        x = torch.tensor(x)\n"
    assert found("ESP206", source) == []


def test_a_bare_new_tensor_that_goes_backward_reaches_nothing(found):
    body = "    loss = torch.tensor(values, requires_grad=True).mean()\n    loss.backward()\n"
    source = "import torch\n\ndef f(values):\n" + body
    assert len(found("ESP206", source)) == 1
    assert found("ESP206", source.replace("values, requires_grad", "0.0, requires_grad")) == []


def test_a_loss_that_a_helper_wraps_is_followed_to_its_caller(found):
    source = """
import torch


def total(model, parts):
    found = [criterion(model(x), y) for x, y in parts]
    return torch.tensor(found).sum()


def fit(model, parts, optimizer):
    value = total(model, parts)
    value.backward()
"""
    assert len(found("ESP206", source)) == 1


def test_a_transform_that_ends_in_a_tensor_makes_one(found):
    source = """
import torch
from torchvision import transforms


class Pictures:
    def __init__(self, paths):
        self.paths = paths
        self.transform = transforms.Compose([transforms.Resize(64), transforms.ToTensor()])

    def __getitem__(self, index):
        image = self.transform(load(self.paths[index]))
        return torch.tensor(image)
"""
    assert len(found("ESP206", source)) == 1
    assert found("ESP206", source.replace(", transforms.ToTensor()", "")) == []


STORED = """
import numpy as np
import torch


class Signals:
    def __init__(self, path):
        self.signals = np.load(path)

    def __getitem__(self, i):
        signal = torch.from_numpy(self.signals[i])
        {line}
        return signal
"""


@pytest.mark.parametrize("line", ["signal += torch.randn_like(signal)", "signal[0] = 0.0", "signal.mul_(2)"])
def test_an_item_that_is_changed_changes_the_data_set(found, line):
    assert len(found("ESP207", STORED.format(line=line))) == 1
    copied = STORED.replace("self.signals[i])", "self.signals[i].copy())")
    assert found("ESP207", copied.format(line=line)) == []


def test_an_item_that_is_calculated_with_leaves_the_data_set_alone(found):
    assert found("ESP207", STORED.format(line="signal = signal + 1")) == []


def test_a_model_of_somebody_else_that_was_moved_is_on_the_device(found):
    source = """
from elsewhere import build


class Trainer:
    def __init__(self, loader, device):
        self.model, self.loader, self.device = build().to(device), loader, device

    def epoch(self):
        for x, y in self.loader:
            scores = self.model(x.to(self.device))
            loss = self.criterion(scores, y)
"""
    assert found("ESP104", source) == ["loss = self.criterion(scores, y)"]
    assert found("ESP104", source.replace("scores, y)", "scores, y.to(self.device))")) == []


def test_a_model_that_its_makers_never_move_stays_on_the_host(found):
    body = module("return self.layer(x) + torch.randn(x.shape)").replace("model = Net(8).to('cuda')", "")
    sources = {"pkg/net.py": body + "\ndef load():\n    return Net(8)\n", "pkg/other.py": "x = make().to('cuda')\n"}
    assert found("ESP104", sources) == []
    sources["pkg/run.py"] = "from pkg.net import load\n\nmodel = load().to('cuda')\n"
    assert len(found("ESP104", sources)) == 1
