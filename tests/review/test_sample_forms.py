"""Tests of further ways to write loops over samples, and of what only looks like one."""

from __future__ import annotations

from textwrap import indent

import pytest

from tests.review.conftest import reviewed

HEAD = "import torch\nimport numpy as np\nimport torch.nn.functional as F\n"
ONE_BY_ONE = {
    "the element under its own name": "def f(model, states):\n    out = []\n    for s in states:\n"
    "        s = torch.from_numpy(s).float().unsqueeze(0)\n        out.append(model(s))\n",
    "viewed": "def f(model, batch):\n    out = []\n    for x in batch:\n        x = x.view(1, 3, 8, 8)\n"
    "        out += [model(x)]\n",
    "a part of a dict": "def f(model, batch):\n    for x in batch['image']:\n        yield model(x.unsqueeze(0))\n",
    "while": "def f(model, frames):\n    i, out = 0, []\n    while i < len(frames):\n"
    "        out.append(model(frames[i].unsqueeze(0)))\n        i += 1\n",
    "the second argument": "def f(model, query, gallery):\n    for j in range(gallery.size(0)):\n"
    "        yield model(query, gallery[j].unsqueeze(0))\n",
    "a named part": "def f(encoder, imgs):\n"
    "    return torch.stack([encoder(imgs[b].unsqueeze(0)) for b in range(imgs.shape[0])])\n",
    "a data set": "def f(model, ds):\n    for x, y in ds:\n        yield model(x.unsqueeze(0))\n",
}
NOT_ONE_BY_ONE = {
    "a recurrence through a helper's result": "def f(model, norm, x, h):\n    for i in range(x.size(0)):\n"
    "        gates = x[i].unsqueeze(0) + h\n        h = model(gates)\n",
    "what the round before answered": "def f(model, x):\n    last = None\n    for i in range(x.size(0)):\n"
    "        ids = x[i].unsqueeze(0)\n        if last is not None:\n            ids[0] = last\n"
    "        last = model(ids).argmax()\n",
    "a search of its own length": "def f(model, points):\n    for p in points:\n"
    "        value = model(p.unsqueeze(0))\n        while value > 0:\n            value = value - 1\n",
    "repeated to a batch": "def f(model, observations):\n    for o in observations:\n"
    "        yield model(o.unsqueeze(0).repeat(100, 1))\n",
    "a reader of files": "def f(model, dataset):\n    for path, im, im0, cap in dataset:\n        model(im[None])\n",
    "decoder layers": "def f(model, hid):\n    for lvl in range(hid.shape[0]):\n        yield model(hid[lvl])\n",
}


@pytest.mark.parametrize("source", ONE_BY_ONE.values(), ids=ONE_BY_ONE)
def test_further_forms_of_a_model_called_for_each_sample_are_found(found, source):
    assert len(found("ESP408", HEAD + source)) == 1


@pytest.mark.parametrize("source", NOT_ONE_BY_ONE.values(), ids=NOT_ONE_BY_ONE)
def test_rounds_that_cannot_be_one_call_are_left_alone(found, source):
    assert found("ESP408", HEAD + source) == []


COMPUTED = {
    "appended and stacked": "vals = []\nfor i in range(x.shape[0]):\n    vals.append(x[i] * y[i])\n"
    "return torch.stack(vals)",
    "pairs": "out = []\nfor i in range(x.shape[0]):\n    row = []\n    for j in range(x.shape[0]):\n"
    "        row.append(torch.norm(x[i] - x[j]))\n    out.append(torch.stack(row))\nreturn torch.stack(out)",
    "flattened": "total = 0\nfor v in x.flatten():\n    total += v.item()\nreturn total",
}
NOT_COMPUTED = {
    "a list brought into shape": "return torch.cat([s.unsqueeze(2) for s in x], dim=2)",
    "a list of tensors with its own axis": "device = x.device\nreturn torch.cat([s / y + 1 for s in x], dim=0)",
    "lists padded": "return torch.tensor([row + [0] * (8 - len(row)) for row in x], device=x.device)",
}


@pytest.mark.parametrize("body", COMPUTED.values(), ids=COMPUTED)
def test_further_forms_of_a_tensor_computed_in_python_are_found(found, body):
    assert len(found("ESP409", f"{HEAD}def compute_loss(x, y):\n{indent(body, '    ')}\n")) == 1


@pytest.mark.parametrize("body", NOT_COMPUTED.values(), ids=NOT_COMPUTED)
def test_lists_that_are_joined_are_left_alone(found, body):
    assert found("ESP409", f"{HEAD}def compute_loss(x, y):\n{indent(body, '    ')}\n") == []


def test_a_loop_over_a_short_axis_alone_is_a_suggestion():
    source = "def loss(x, m):\n    n = x.size(1)\n    return torch.stack([x[:, i] / m[i] for i in range(n)], -1)\n"
    assert [str(claim.severity) for claim in reviewed(HEAD + source, "ESP409").claims] == ["suggestion"]


MOVED = {
    "bound and appended": "batch = []\nfor x in xs:\n    t = torch.FloatTensor(x[0]).unsqueeze(0).cuda()\n"
    "    batch.append(t)\nreturn torch.cat(batch, dim=0)",
    "rows filled": "rows = torch.empty(len(xs), 8, device=device)\nfor i, x in enumerate(xs):\n"
    "    rows[i] = torch.from_numpy(x).to(device)\nreturn rows",
    "made there": "batch = []\nfor x in xs:\n    t = torch.tensor(x, device=device)\n    batch.append(t)\n"
    "return torch.stack(batch)",
}
NOT_MOVED = {
    "written out on the spot": "labels = []\nfor n in xs:\n    labels.append(torch.tensor([1] * n + [0]).to(device))\n"
    "return torch.stack(labels)",
    "a list in place": "for i in range(len(xs)):\n    xs[i] = xs[i].to(device)\nreturn xs",
}


@pytest.mark.parametrize("body", MOVED.values(), ids=MOVED)
def test_further_forms_of_samples_moved_one_by_one_are_found(found, body):
    assert len(found("ESP410", f"{HEAD}def f(xs, device):\n{indent(body, '    ')}\n")) == 1


@pytest.mark.parametrize("body", NOT_MOVED.values(), ids=NOT_MOVED)
def test_moves_of_what_is_no_sample_are_left_alone(found, body):
    assert found("ESP410", f"{HEAD}def f(xs, device):\n{indent(body, '    ')}\n") == []


def test_a_data_set_that_moves_where_its_user_asked_for_it_is_left_alone(found):
    source = """
    import torch
    from torch.utils.data import IterableDataset

    class Buffer(IterableDataset):
        def __init__(self, device=None):
            self.device = device

        def __iter__(self):
            for value in self.values:
                if self.device is not None:
                    value = value.to(self.device)
                yield value
    """
    assert found("ESP410", source) == []
