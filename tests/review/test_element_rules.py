"""ESP409: tensors computed one element or one row at a time."""

from __future__ import annotations

import pytest

from esper_agents.review.engine import review_sources

LOOPS = "import math\nimport torch\nimport torch.nn.functional as F\nfrom torch import Tensor\n\n"
ELEMENTS = {
    "two loops": (
        "def forward(self, x):\n"
        "    y = torch.zeros(x.size(0), x.size(1))\n"
        "    for i in range(x.size(0)):\n"
        "        for j in range(x.size(1)):\n"
        "            y[i, j] = x[i, j] * 2 + 1\n"
        "    return y\n"
    ),
    "a test inside": (
        "def forward(self, x):\n"
        "    out = torch.zeros_like(x)\n"
        "    for i in range(x.shape[0]):\n"
        "        for j in range(x.shape[1]):\n"
        "            if x[i][j] > 0:\n"
        "                out[i][j] = x[i][j]\n"
        "            else:\n"
        "                out[i][j] = 0.01 * x[i][j]\n"
        "    return out\n"
    ),
    "a sum over samples": (
        "def my_loss(prediction, target):\n"
        "    loss = 0\n"
        "    for i in range(prediction.size(0)):\n"
        "        loss += (prediction[i] - target[i]) ** 2\n"
        "    return loss / prediction.size(0)\n"
    ),
    "elements": (
        "def norm_loss(x: Tensor):\n    total = 0.0\n    for v in x:\n        total += v ** 2\n    return total\n"
    ),
    "a product": (
        "def multiply(a, b):\n"
        "    n, k = a.shape\n"
        "    k, m = b.shape\n"
        "    c = torch.zeros(n, m)\n"
        "    for i in range(n):\n"
        "        for j in range(m):\n"
        "            for l in range(k):\n"
        "                c[i, j] += a[i, l] * b[l, j]\n"
        "    return c\n"
    ),
    "a stack": "def unit(x):\n    return torch.stack([x[i] / x[i].norm() for i in range(x.size(0))])\n",
    "a name on the way": (
        "def forward(self, q, k):\n"
        "    B, T, D = q.size()\n"
        "    s = torch.empty(T, T)\n"
        "    for i in range(T):\n"
        "        for j in range(T):\n"
        "            d = q[:, i] - k[:, j]\n"
        "            s[i, j] = d.pow(2).sum()\n"
        "    return s\n"
    ),
    "appended": (
        "def forward(self, x):\n"
        "    out = []\n"
        "    for i in range(x.size(0)):\n"
        "        out.append(x[i] * self.weight)\n"
        "    return torch.stack(out)\n"
    ),
    "overlaps": (
        "def overlap(a, b):\n"
        "    out = torch.zeros(len(a), len(b))\n"
        "    for i in range(len(a)):\n"
        "        for j in range(len(b)):\n"
        "            shared = torch.clamp(torch.min(a[i, 2], b[j, 2]) - torch.max(a[i, 0], b[j, 0]), min=0)\n"
        "            out[i, j] = shared / (a[i].sum() + b[j].sum() - shared)\n"
        "    return out\n"
    ),
    "a one in each row": (
        "def smooth_loss(logits, targets):\n"
        "    rows, n = logits.shape\n"
        "    chosen = torch.zeros(rows, n, device=logits.device)\n"
        "    for i in range(rows):\n"
        "        chosen[i, targets[i]] = 1.0\n"
        "    return -(chosen * logits.log_softmax(-1)).sum()\n"
    ),
    "a zero where a test says so": (
        "def forward(self, x):\n"
        "    out = x.clone()\n"
        "    for i in range(x.size(0)):\n"
        "        for j in range(x.size(1)):\n"
        "            if x[i, j] < 0:\n"
        "                out[i, j] = 0\n"
        "    return out\n"
    ),
    "a count": (
        "def accuracy(output, target):\n"
        "    right, guess = 0, output.argmax(dim=1)\n"
        "    for i in range(guess.size(0)):\n"
        "        if guess[i] == target[i]:\n"
        "            right += 1\n"
        "    return right / guess.size(0)\n"
    ),
    "in a training loop": (
        "def train(model, loader, optimizer):\n"
        "    for x, y in loader:\n"
        "        out = model(x)\n"
        "        loss = 0\n"
        "        for i in range(out.size(0)):\n"
        "            loss = loss + (out[i] - y[i]).abs().sum()\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
    ),
}
WHOLE = {
    "a recurrence": (
        "def forward(self, x):\n"
        "    y = torch.zeros_like(x)\n"
        "    for t in range(1, x.size(0)):\n"
        "        y[t] = 0.9 * y[t - 1] + x[t]\n"
        "    return y\n"
    ),
    "a recurrence by a name": (
        "def returns(r):\n"
        "    out, last = torch.zeros_like(r), 0\n"
        "    for t in range(r.size(0)):\n"
        "        last = r[t] + 0.9 * last\n"
        "        out[t] = last\n"
        "    return out\n"
    ),
    "a cell": (
        "def forward(self, x):\n"
        "    outs, h = [], None\n"
        "    for t in range(x.size(1)):\n"
        "        h = self.cell(x[:, t], h)\n"
        "        outs.append(h)\n"
        "    return torch.stack(outs)\n"
    ),
    "layers": (
        "def forward(self, x):\n    for i in range(len(self.layers)):\n        x = self.layers[i](x)\n    return x\n"
    ),
    "plain numbers": "def f(x):\n    s = 0\n    for v in x.tolist():\n        s += v ** 2\n    return s\n",
    "small sizes": (
        "def forward(self, x):\n"
        "    y = torch.zeros(3, 3)\n"
        "    for i in range(3):\n"
        "        for j in range(3):\n"
        "            y[i, j] = x[i] * x[j]\n"
        "    return y\n"
    ),
    "arrays": (
        "import numpy as np\n"
        "def f(x):\n"
        "    x = np.asarray(x)\n"
        "    y = np.zeros(x.shape)\n"
        "    for i in range(x.shape[0]):\n"
        "        y[i] = x[i] * 2\n"
        "    return y\n"
    ),
    "a table made once": (
        "def build_table(n):\n"
        "    pe = torch.zeros(n, n)\n"
        "    for i in range(pe.size(0)):\n"
        "        for j in range(pe.size(1)):\n"
        "            pe[i, j] = math.sin(i * j)\n"
        "    return pe\n"
    ),
    "a list of tensors": (
        "def loss(xs):\n    total = 0\n    for x in xs:\n        total += x.mean()\n    return total\n"
    ),
    "lengths": (
        "def masked_loss(x, lengths):\n"
        "    total = 0\n"
        "    for i in range(x.size(0)):\n"
        "        total += x[i, :lengths[i]].mean()\n"
        "    return total\n"
    ),
    "padding": (
        "def pad(x: Tensor):\n"
        "    parts = [k.nonzero() for k in x]\n"
        "    out = torch.full((x.shape[0], 9), -1)\n"
        "    for b in range(x.shape[0]):\n"
        "        out[b, : len(parts[b])] = parts[b]\n"
        "    return out\n"
    ),
    "printing": "def show_all(x: Tensor):\n    for v in x:\n        print(v * 2)\n",
    "terms of a loss": (
        "def loss_sum(losses):\n    total = 0\n    for k in losses:\n        total += losses[k] * 2\n    return total\n"
    ),
    "several outputs": (
        "def loss_fn(outputs, targets):\n"
        "    loss = 0\n"
        "    for i in range(len(outputs)):\n"
        "        loss += F.mse_loss(outputs[i], targets[i])\n"
        "    return loss\n"
    ),
    "another list by an axis": (
        "def ends(grid, x):\n"
        "    n = x.shape[-1]\n"
        "    y = x.view(-1, n)\n"
        "    return torch.stack([grid[i].min() for i in range(n)])\n"
    ),
}


@pytest.mark.parametrize("source", ELEMENTS.values(), ids=ELEMENTS)
def test_tensors_computed_element_by_element_are_found_once(found, source):
    assert len(found("ESP409", LOOPS + source)) == 1


@pytest.mark.parametrize("source", WHOLE.values(), ids=WHOLE)
def test_loops_that_must_be_loops_are_left_alone(found, source):
    assert found("ESP409", LOOPS + source) == []


def test_loops_over_elements_outside_of_training_are_advice():
    source = LOOPS + "def row_sums(x):\n    return torch.stack([x[i].sum() * 2 for i in range(x.size(0))])\n"
    (claim,) = review_sources({"a.py": source}, rules=["ESP409"]).claims
    assert claim.severity.value == "suggestion"


LENGTHS = """
import torch

def lengths(cities, tours):
    total = torch.zeros(tours.size(0), device=cities.device)
    for b in range(tours.size(0)):
        for i in range(tours.size(1)):
            {body}
    return total
"""


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (
            (
                "here, there = tours[b, i], tours[b, (i + 1) % tours.size(1)]\n"
                "total[b] += (cities[b, here] - cities[b, there]).norm()"
            ),
            1,
        ),
        ("total[b] += (cities[b, tours[b, i]] - cities[b, tours[b, i - 1]]).norm()", 1),
        ("here, there = tours[b, i], self.next(i)\ntotal[b] += (cities[b, here] - cities[b, there]).norm()", 0),
        ("total[b] += (cities[b, find(tours, i)] - cities[b, tours[b, i]]).norm()", 0),
    ],
)
def test_names_bound_together_and_sizes_in_indices_are_elementwise(body, count, found):
    source = LENGTHS.format(body=body.replace("\n", "\n" + " " * 12))
    assert len(found("ESP409", source)) == count


ROWS = """
import torch

def iou_loss(boxes, targets):
    losses = []
    for p, t in zip(boxes, targets):
        {body}
    return torch.stack(losses).mean()
"""


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("wide = torch.min(p[2], t[2]) - torch.max(p[0], t[0])\nlosses.append(1 - wide / (p[1] + t[1]))", 1),
        ("losses.append(torch.max(p[0], p[1]))", 0),
        ("losses.append(1 - self.overlap(p[0], p[1], p[2]))", 0),
    ],
)
def test_what_several_numbers_are_taken_from_is_a_row(body, count, found):
    assert len(found("ESP409", ROWS.format(body=body.replace("\n", "\n" + " " * 8)))) == count


def test_rows_of_what_has_a_shape_that_torch_computes_with_are_rows_of_a_tensor(found):
    source = """
    import torch

    def kernel(x, y, gamma):
        out = torch.empty(x.shape[0], y.shape[0])
        for i, a in enumerate(x):
            for j, b in enumerate(y):
                out[i, j] = torch.exp(-gamma * torch.sum((a - b) ** 2))
        return out
    """
    assert len(found("ESP409", source)) == 1
    assert not found("ESP409", source.replace("torch.exp", "math.exp").replace("torch.sum((a - b) ** 2)", "abs(a - b)"))


def test_an_inner_loop_over_the_pairs_above_the_diagonal_is_part_of_it(found):
    source = """
    import torch

    def energy(positions, charges):
        total = positions.new_zeros(())
        n = len(positions)
        for i in range(n):
            for j in range(i + 1, n):
                r = torch.linalg.vector_norm(positions[i] - positions[j])
                total += charges[i] * charges[j] / r
        return total
    """
    assert len(found("ESP409", source)) == 1
    assert not found("ESP409", source.replace("r = torch.linalg.vector_norm(", "r = r + torch.linalg.vector_norm("))


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("x[i] = (x[i] - x[i].mean()) / x[i].std()", 1),
        ("x[i] = x[i] / x[i - 1].norm()", 0),
        ("x[i] = x[i] / x.norm()", 0),
        ("total = total - torch.log(x[i]).sum()", 1),
        ("total = torch.log(x[i]).sum() - total", 0),
        ("run = run + x[i].sum()\n        total = total + run * x[i].mean()", 0),
    ],
)
def test_elements_that_are_computed_from_themselves_need_no_other(body, count, found):
    source = """
    import torch

    def normalise(x, total, run):
        for i in range(x.size(0)):
            BODY
        return x, total
    """
    source = source.replace("BODY", body.replace("\n        ", "\n            "))
    assert len(found("ESP409", source)) == count
