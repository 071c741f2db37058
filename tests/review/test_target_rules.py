"""ESP105 where only a key or another use shows the target's shape; ESP207 on the items of data sets."""

from __future__ import annotations

import pytest

NET = """
import torch
import torch.nn.functional as F
from torch import nn
from transformers import AutoModel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = AutoModel.from_pretrained("x")
        self.head = nn.Linear(768, 1)

    def forward(self, ids, mask=None):
        return self.head(self.encoder(ids, attention_mask=mask).pooler_output)


"""

BY_KEY = """
{making}

def train(loader):
    net = Net()
    for batch in loader:
        rating = {read}
        loss = F.mse_loss(net({given}), rating)
        loss.backward()
"""

COLUMNS = [
    (
        "def pack(rows):\n    batch = tokenise(rows)\n"
        "    batch['rating'] = torch.tensor([r['rating'] for r in rows], dtype=torch.float32)\n    return batch\n"
    ),
    "def pack(rows):\n    return {'ids': ids(rows), 'rating': torch.tensor([float(r.rating) for r in rows])}\n",
    "class Rows:\n    def __getitem__(self, i):\n        return {'rating': torch.tensor(float(self.rows[i]))}\n",
]


@pytest.mark.parametrize("making", COLUMNS, ids=["assigned", "written out", "one sample"])
@pytest.mark.parametrize("read", ["batch['rating'].to('cuda')", "batch.pop('rating')", "batch['rating'].float()"])
@pytest.mark.parametrize("given", ["batch['ids']", "**batch"])
def test_a_target_is_known_by_the_key_under_which_it_was_stored(found, making, read, given):
    assert len(found("ESP105", NET + BY_KEY.format(making=making, read=read, given=given))) == 1


@pytest.mark.parametrize(
    ("making", "read"),
    [
        (COLUMNS[0], "batch['rating'].unsqueeze(1)"),
        (COLUMNS[0], "batch['other']"),
        (COLUMNS[0].replace("r['rating'] for", "[r['rating']] for"), "batch['rating']"),
        ("def pack(rows):\n    return {'rating': torch.stack([r['rating'] for r in rows])}\n", "batch['rating']"),
    ],
)
def test_a_target_of_another_or_no_known_shape_is_left_alone(found, making, read):
    assert found("ESP105", NET + BY_KEY.format(making=making, read=read, given="batch['ids']")) == []


FIT = """
def fit(loader, rest):
    net = Net()
    criterion = nn.MSELoss()
    for x, y in loader:
        {shaping}
        loss = criterion(net(x), y)
        loss.backward()
    net.eval()
    with torch.no_grad():
        for x, y in rest:
            p = {used}
            print((p - {target}).abs().sum())
"""


@pytest.mark.parametrize("used", ["net(x).squeeze(1)", "net(x)[:, 0]", "net(x).view(-1)", "net(x).flatten()"])
def test_a_loss_of_what_is_squeezed_elsewhere_is_found(found, used):
    code = FIT.format(shaping="pass", used=used, target="y")
    assert found("ESP105", NET + code) == ["loss = criterion(net(x), y)"]


@pytest.mark.parametrize(
    ("shaping", "used", "target"),
    [
        ("y = y.unsqueeze(1)", "net(x).squeeze(1)", "y"),
        ("y = y[:, None]", "net(x).squeeze(1)", "y"),
        ("pass", "net(x).squeeze(1)", "y.squeeze(1)"),
        ("pass", "net(x)", "y"),
    ],
)
def test_a_loss_whose_target_has_the_shape_is_left_alone(found, shaping, used, target):
    assert found("ESP105", NET + FIT.format(shaping=shaping, used=used, target=target)) == []


ITEMS = """
import numpy as np
import torch
from torch.utils.data import Dataset


class Rows(Dataset):
    def __init__(self, path, wanted):
        loaded = np.load(path)
        self.x = {kept}
        self.keep = {keep}
        self.n = 16

    def {name}(self, i):
        {read}
        return row
"""

PLACES = "np.flatnonzero(wanted)"


@pytest.mark.parametrize("kept", ["loaded['x'].astype('float32')", "np.load(path)", "torch.load(path).float()"])
@pytest.mark.parametrize(
    "read",
    [
        "row = self.x[i]\n        row -= row.mean()",
        "at = self.keep[i]\n        row = torch.as_tensor(self.x[at])\n        row.div_(row.sum())",
        "start = i * self.n\n        row = self.x[start : start + self.n]\n        row[0] = 0",
        "row = torch.from_numpy(self.x[int(i)])\n        row /= 255",
    ],
)
@pytest.mark.parametrize("name", ["__getitem__"])
def test_an_item_that_is_changed_changes_the_data_set(found, kept, read, name):
    assert len(found("ESP207", ITEMS.format(kept=kept, keep=PLACES, read=read, name=name))) == 1


@pytest.mark.parametrize(
    ("keep", "read"),
    [
        (PLACES, "row = self.x[i].copy()\n        row -= row.mean()"),
        (PLACES, "row = self.x[i] - 1\n        row *= 2"),
        (PLACES, "row = torch.from_numpy(self.x[i]).float()\n        row /= 255"),
        ("wanted.reshape(-1, 4)", "at = self.keep[i]\n        row = self.x[at]\n        row -= row.mean()"),
        (PLACES, "row = torch.as_tensor(self.x[i], dtype=torch.float64)\n        row /= 255"),
    ],
)
def test_an_item_that_was_copied_may_be_changed(found, keep, read):
    code = ITEMS.format(kept="np.load(path)", keep=keep, read=read, name="__getitem__")
    assert found("ESP207", code) == []
