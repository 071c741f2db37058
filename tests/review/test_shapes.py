"""What is known of shapes, kinds and memory without running anything."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from esper_agents.review.builder import fill
from esper_agents.review.index import ProjectIndex
from esper_agents.review.shapes import shapes_of
from esper_agents.review.shapes.facts import Kind, Layer, Number, Object, Tensor, shown
from esper_agents.review.tables import FileTables, Purpose

IMPORTS = """
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split
"""


def index_of(sources: dict[str, str]) -> ProjectIndex:
    files = []
    for path, source in sources.items():
        text = dedent(source)
        files.append(FileTables(path, path.removesuffix(".py"), text, ast.parse(text), Purpose.CODE))
        fill(files[-1])
    return ProjectIndex(files)


def values(source: str | dict[str, str]) -> list[object]:
    """Return what `show(...)` is given, call by call."""
    files = {"train.py": IMPORTS + dedent(source)} if isinstance(source, str) else source
    index = index_of(files)
    calls = [call for file in index.files.values() for call in file.calls if call.path == "show"]
    return [shapes_of(index).ask(call.node.args[0], call) for call in calls]


def shape(source: str | dict[str, str]) -> str:
    (found,) = values(source)
    return shown(found) if isinstance(found, Tensor) else repr(found)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("torch.randn(8, 3)", "(8, 3)"),
        ("torch.zeros((4, 5))", "(4, 5)"),
        ("torch.arange(6)", "(6,)"),
        ("torch.tensor([[1, 2], [3, 4], [5, 6]])", "(3, 2)"),
        ("torch.tensor(3.0)", "()"),
        ("torch.full((7,), 1.0)", "(7,)"),
        ("torch.randint(0, 9, (2, 3))", "(2, 3)"),
        ("x.view(8, -1)", "(8, 3072)"),
        ("x.view(x.size(0), -1)", "(8, 3072)"),
        ("x.reshape(-1, 32)", "(768, 32)"),
        ("x.flatten(1)", "(8, 3072)"),
        ("torch.flatten(x, 2)", "(8, 3, 1024)"),
        ("x.permute(0, 2, 3, 1)", "(8, 32, 32, 3)"),
        ("x.transpose(1, -1)", "(8, 32, 32, 3)"),
        ("x.unsqueeze(1)", "(8, 1, 3, 32, 32)"),
        ("x[:, :1].squeeze(1)", "(8, 32, 32)"),
        ("x.mean(dim=(2, 3))", "(8, 3)"),
        ("x.mean((2, 3), keepdim=True)", "(8, 3, 1, 1)"),
        ("x.sum()", "()"),
        ("x.argmax(dim=1)", "(8, 32, 32)"),
        ("x.max(1)[0]", "(8, 32, 32)"),
        ("x.max(dim=1).values", "(8, 32, 32)"),
        ("torch.cat([x, x], dim=1)", "(8, 6, 32, 32)"),
        ("torch.stack([x, x])", "(2, 8, 3, 32, 32)"),
        ("x @ x.transpose(-2, -1)", "(8, 3, 32, 32)"),
        ("x + torch.randn(32)", "(8, 3, 32, 32)"),
        ("torch.randn(8, 1) - torch.randn(8)", "(8, 8)"),
        ("x[0]", "(3, 32, 32)"),
        ("x[:, 0]", "(8, 32, 32)"),
        ("x[:, None]", "(8, 1, 3, 32, 32)"),
        ("x[..., -1]", "(8, 3, 32)"),
        ("x[:, 1:]", "(8, 2, 32, 32)"),
        ("x.shape[1] * torch.ones(2)", "(2,)"),
        ("torch.ones(x.shape[-1] // 2, x.size(1))", "(16, 3)"),
        ("F.one_hot(torch.zeros(8), 5)", "(8, 5)"),
        ("torch.randn(8, 4).gather(1, torch.zeros(8).unsqueeze(1))", "(8, 1)"),
        ("torch.einsum('bchw,bdhw->bcd', x, x)", "(8, 3, 3)"),
        ("x.chunk(3, dim=1)[0]", "(8, 1, 32, 32)"),
        ("x.float().to('cuda').detach().clone()", "(8, 3, 32, 32)"),
        ("F.max_pool2d(F.relu(x), 2)", "(8, 3, 16, 16)"),
        ("nn.Conv2d(3, 16, 3)(x)", "(8, 16, 30, 30)"),
        ("nn.Conv2d(3, 16, 3, stride=2, padding=1)(x)", "(8, 16, 16, 16)"),
        ("nn.ConvTranspose2d(3, 4, 2, stride=2)(x)", "(8, 4, 64, 64)"),
        ("nn.AdaptiveAvgPool2d((1, 1))(x)", "(8, 3, 1, 1)"),
        ("nn.Linear(32, 7)(x)", "(8, 3, 32, 7)"),
        ("nn.Embedding(9, 16)(torch.zeros(2, 5))", "(2, 5, 16)"),
        ("nn.LSTM(32, 6, bidirectional=True, batch_first=True)(x[:, 0])[0]", "(8, 32, 12)"),
        ("nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4096, 2))(x)", "(8, 2)"),
        ("unknown(x)", "None"),
    ],
)
def test_the_shape_of_an_expression(expression, expected):
    assert shape(f"x = torch.randn(8, 3, 32, 32)\nshow({expression})\n") == expected


def test_sizes_that_the_code_names_are_followed():
    source = """
        def heads(x):
            B, T, C = x.shape
            q = x.view(B, T, 4, C // 4).transpose(1, 2)
            show((q @ q.transpose(-2, -1)))
        """
    assert shape(source) == "(B, 4, T, T)"


def test_branches_that_differ_leave_nothing_known():
    source = """
        x = torch.randn(4, 5)
        if flag:
            x = x[0]
        show(x)
        """
    assert shape(source) == "(...)" or shape(source) == "(..., 5)"


def test_both_arms_of_a_branch_hide_what_was_before():
    source = """
        x = torch.randn(4)
        if flag:
            x = torch.randn(2, 3)
        else:
            x = torch.zeros(2, 3)
        show(x)
        """
    assert shape(source) == "(2, 3)"


def test_an_arm_that_leaves_does_not_count():
    source = """
        def f(flag):
            x = torch.randn(4, 5)
            if flag:
                x = x[0]
                return x
            show(x)
        """
    assert shape(source) == "(4, 5)"


def test_what_a_loop_changes_is_not_known_before():
    source = """
        x = torch.randn(4, 5)
        for i in range(3):
            show(x)
            x = x.unsqueeze(0)
        """
    assert shape(source) != "(4, 5)"


def test_what_a_loop_keeps_stays_known():
    source = """
        x = torch.randn(4, 5)
        for layer in layers:
            x = torch.relu(x)
        show(x)
        """
    assert shape(source) == "(4, 5)"


def test_a_list_that_grows_is_no_list_of_what_it_starts_with():
    source = """
        rows = []
        for i in range(3):
            rows.append(torch.randn(2, 3))
        show(torch.cat(rows))
        """
    assert shape(source) == "(?, 3)"


DATA = """
class Points(Dataset):
    def __init__(self, x, y):
        self.x = torch.tensor(x, dtype=torch.float32)
        self.y = torch.tensor(y, dtype=torch.float32)

    def __getitem__(self, i):
        return self.x[i], self.y[i]

x = np.random.randn(100, 5)
y = x[:, 0] + np.random.randn(100)
"""


@pytest.mark.parametrize(
    ("loader", "expected"),
    [
        ("DataLoader(Points(x, y), batch_size=4)", "(batch,)"),
        ("DataLoader(Points(x, y.reshape(-1, 1)), batch_size=4)", "(batch, 1)"),
        ("DataLoader(TensorDataset(torch.tensor(x), torch.from_numpy(y)), 4)", "(batch,)"),
        ("DataLoader(random_split(Points(x, y), [80, 20])[0], batch_size=4)", "(batch,)"),
        ("tqdm(DataLoader(Points(x, y), batch_size=4))", "(batch,)"),
        ("DataLoader(Points(x, y), batch_size=4, collate_fn=lambda b: b)", "None"),
    ],
)
def test_a_loader_adds_the_batch_to_what_the_data_set_gives(loader, expected):
    assert shape(f"{DATA}\nfor i, (a, b) in enumerate({loader}):\n    show(b.cuda())\n") == expected


def test_a_model_in_another_file_is_followed_with_what_it_was_made_of():
    model = """
        from torch import nn

        class Net(nn.Module):
            def __init__(self, width, out=1):
                super().__init__()
                self.body = nn.Linear(8, width)
                self.head = nn.Linear(width, out)

            def forward(self, x):
                return self.head(self.body(x).relu())
        """
    use = """
        import torch
        from model import Net

        def run(model, x):
            show(model(x))

        run(Net(32, out=3).to("cuda"), torch.randn(4, 8))
        """
    assert shape({"model.py": model, "train.py": use}) == "(4, 3)"


def test_layers_and_objects_are_values():
    source = """
        class Net(nn.Module):
            def forward(self, x):
                return x

        show(nn.Linear(3, 4))
        show(Net())
        show(len(torch.zeros(5)))
        """
    layer, net, length = values(source)
    assert isinstance(layer, Layer)
    assert layer.name == "Linear"
    assert isinstance(net, Object)
    assert length == Number(5)


def test_kinds_follow_casts():
    integer, floating, truth = values("a = torch.zeros(3)\nshow(a.long())\nshow(a.float())\nshow(a > 0)\n")
    assert [each.kind for each in (integer, floating, truth)] == [Kind.INTEGER, Kind.FLOAT, Kind.BOOLEAN]


@pytest.mark.parametrize(
    ("expression", "is_straight"),
    [
        ("x", True),
        ("x.permute(0, 2, 1)", False),
        ("x.permute(0, 2, 1).contiguous()", True),
        ("x.permute(0, 2, 1).relu()", False),
        ("x.transpose(1, 2).transpose(1, 2)", True),
        ("x.permute(0, 2, 1).reshape(2, -1)", True),
        ("nn.Linear(3, 5)(x.transpose(1, 2))", True),
        ("nn.LSTM(4, 6, batch_first=True)(x)[0]", False),
    ],
)
def test_where_dimensions_stand_in_memory(expression, is_straight):
    (found,) = values(f"x = torch.randn(2, 3, 4)\nshow({expression})\n")
    assert isinstance(found, Tensor)
    assert (found.places == tuple(range(len(found.dims)))) is is_straight


def test_going_in_circles_ends():
    source = """
        def f(x, n):
            x = g(x)
            return f(x, n - 1)

        def g(x):
            return f(x, 1)

        show(f(torch.zeros(3), 4))
        """
    assert values(source) == [None]
