"""ESP303: outputs, features and activations that training steps, hooks and forwards keep."""

from __future__ import annotations

import pytest

TRAINING = """
import torch

def fit(model, loader, optimizer, criterion, device):
    outputs, total, bar = [], 0.0, tqdm(loader)
    for i, (x, y) in enumerate(bar):
        x, y = x.to(device), y.to(device)
        output = model(x)
        loss = criterion(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {line}
"""

KEPT = [
    "outputs.append(output)",
    "outputs.append(model(x))",
    "outputs.append((output, y))",
    "outputs.append(output.softmax(-1))",
    "outputs.append(torch.softmax(output, dim=-1))",
    "outputs.append({'logits': output})",
    "outputs.append(output.logits)",
    "outputs.append(output[0])",
    "outputs += [output]",
    "outputs[i] = output",
]
LET_GO = [
    "outputs.append(output.detach())",
    "outputs.append(output.detach().cpu())",
    "outputs.append(output.argmax(1))",
    "outputs.append(output.shape)",
    "outputs.append(len(output))",
    "outputs.append(y)",
    "outputs = [output]",
    "outputs[0] = output",
    "outputs += [output.detach()]",
    "if i % 100 == 0: outputs.append(output)",
    "with torch.no_grad(): outputs.append(model(x))",
]


@pytest.mark.parametrize("line", KEPT)
def test_outputs_of_all_steps_kept_with_their_graph_are_found(found, line):
    assert found("ESP303", TRAINING.format(line=line)) == [line]


@pytest.mark.parametrize("line", LET_GO)
def test_outputs_that_hold_no_graph_are_left_alone(found, line):
    assert found("ESP303", TRAINING.format(line=line)) == []


KEEPING = {
    "values of an episode": (
        (
            "for episode in range(9):\n"
            "    values, rewards = [], []\n"
            "    for t in range(99):\n"
            "        values.append(model(state))\n"
            "        state, reward = env.step(values[-1])\n"
            "    loss = compute(values, rewards)\n"
            "    loss.backward()\n"
        ),
        0,
    ),
    "a store that the step reads": (
        (
            "history = []\n"
            "for x, y in loader:\n"
            "    history.append(model(x))\n"
            "    loss = criterion(torch.stack(history[-4:]), y)\n"
            "    loss.backward()\n"
        ),
        0,
    ),
    "a list in a dict": (
        (
            "kept = {'a': []}\n"
            "for x, y in loader:\n"
            "    f = model(x)\n"
            "    criterion(f, y).backward()\n"
            "    kept['a'].append(f)\n"
        ),
        1,
    ),
    "a step of Lightning": (
        (
            "import lightning as L\n"
            "class Net(L.LightningModule):\n"
            "    def __init__(self):\n"
            "        self.kept = []\n"
            "    def training_step(self, batch, i):\n"
            "        logits = self.model(batch[0])\n"
            "        loss = self.loss(logits, batch[1])\n"
            "        self.kept.append({'loss': loss.detach(), 'logits': logits})\n"
            "        return loss\n"
        ),
        1,
    ),
    "a hook": (
        (
            "activations = []\n"
            "def hook(module, inputs, output):\n"
            "    activations.append(output)\n"
            "model.layer.register_forward_hook(hook)\n"
        ),
        1,
    ),
    "a hook as a lambda": (
        "seen = []\nmodel.layer.register_forward_hook(lambda module, inputs, output: seen.append(output))\n",
        1,
    ),
    "a hook as a method": (
        (
            "class Probe:\n"
            "    def __init__(self, model):\n"
            "        self.features = []\n"
            "        model.layer.register_forward_hook(self.keep)\n"
            "    def keep(self, module, inputs, output):\n"
            "        self.features.append(output)\n"
        ),
        1,
    ),
    "a hook that a function makes": (
        (
            "kept = []\n"
            "def keep(name):\n"
            "    def hook(module, inputs, output):\n"
            "        kept.append((name, output))\n"
            "    return hook\n"
            "model.layer.register_forward_hook(keep('layer'))\n"
        ),
        1,
    ),
    "a hook that detaches": (
        "kept = []\ndef hook(m, i, output):\n    kept.append(output.detach())\nlayer.register_forward_hook(hook)\n",
        0,
    ),
    "a hook whose list is emptied": (
        (
            "kept = []\n"
            "def hook(m, i, output):\n"
            "    kept.append(output)\n"
            "layer.register_forward_hook(hook)\n"
            "for x in loader:\n"
            "    model(x)\n"
            "    kept.clear()\n"
        ),
        0,
    ),
    "a forward that remembers": (
        (
            "class Block(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.maps = []\n"
            "        self.attend = nn.Linear(4, 4)\n"
            "    def forward(self, x):\n"
            "        attention = self.attend(x)\n"
            "        self.maps.append(attention)\n"
            "        return attention\n"
        ),
        1,
    ),
    "a forward that starts anew": (
        (
            "class Block(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.attend = nn.Linear(4, 4)\n"
            "    def forward(self, x):\n"
            "        self.maps = []\n"
            "        attention = self.attend(x)\n"
            "        self.maps.append(attention)\n"
            "        return attention\n"
        ),
        0,
    ),
    "a list of this forward": (
        (
            "class Block(nn.Module):\n"
            "    def forward(self, x):\n"
            "        outs = []\n"
            "        for layer in self.layers:\n"
            "            x = layer(x)\n"
            "            outs.append(x)\n"
            "        return outs\n"
        ),
        0,
    ),
    "outputs that make the loss": (
        (
            "for batch in loader:\n"
            "    outs = []\n"
            "    for view in batch:\n"
            "        outs.append(model(view))\n"
            "    loss = criterion(torch.stack(outs))\n"
            "    loss.backward()\n"
        ),
        0,
    ),
    "an evaluation": (
        (
            "outs = []\nwith torch.no_grad():\n"
            "    for x in loader:\n        outs.append(model(x))\nall = torch.cat(outs)\n"
        ),
        0,
    ),
}


@pytest.mark.parametrize(("source", "count"), KEEPING.values(), ids=KEEPING)
def test_hooks_and_forwards_that_keep_what_passes_are_found(found, source, count):
    assert len(found("ESP303", f"import torch\nfrom torch import nn\n{source}")) == count


def test_a_number_of_tokens_has_no_graph(found):
    source = """
    def fit(model, loader, optimizer):
        seen = 0
        for batch in loader:
            count = (batch["labels"] != -100).sum()
            loss = model(batch) * count
            seen += count
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    assert not found("ESP301", source)
    assert found("ESP301", source.replace('(batch["labels"] != -100).sum()', "weigh(batch)"))


@pytest.mark.parametrize(
    ("made", "put", "count"),
    [
        ("[]", "self.seen.append(h)", 1),
        ("deque()", "self.seen.append(h)", 1),
        ("deque(maxlen=8)", "self.seen.append(h)", 0),
        ("deque([], 8)", "self.seen.append(h)", 0),
        ("{}", "self.seen[self.calls] = h", 1),
        ("{}", "self.seen[self.calls] = h.detach()", 0),
        ("{}", "self.seen['last'] = h", 0),
        ("{}", "self.seen[x.device] = h", 0),
    ],
)
def test_a_store_that_every_forward_fills_grows(made, put, count, found):
    source = f"""
    from collections import deque
    from torch import nn

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)
            self.seen, self.calls = {made}, 0

        def forward(self, x):
            h = self.layer(x)
            self.calls += 1
            {put}
            return h
    """
    assert len(found("ESP303", source)) == count


def test_a_hook_that_joins_a_list_keeps_what_it_is_handed(found):
    source = """
    class Probe:
        def __init__(self, net):
            self.out = []
            net.register_forward_hook(self.grab)

        def grab(self, module, args, output):
            self.out += [output]
    """
    assert found("ESP303", source) == ["self.out += [output]"]
    assert not found("ESP303", source.replace("[output]", "[output.detach()]"))


def test_rows_of_an_output_keep_its_graph(found):
    source = """
    def fit(model, loader, optimizer, bank):
        for ids, x in loader:
            z = model(x)
            loss = criterion(z)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            for i, row in zip(ids, z):
                bank[i] = row
    """
    assert found("ESP303", source) == ["bank[i] = row"]
    assert not found("ESP303", source.replace("= row", "= row.detach()"))
