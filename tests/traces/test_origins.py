"""Values are followed back to the lines that make them, across functions, classes, loaders and configurations."""

from __future__ import annotations

import ast

import pytest

from esper_agents.domain.finding import Location
from esper_agents.traces.locate import ProjectSources
from esper_agents.traces.origins import OriginTracer
from esper_agents.traces.program_index import made_value, place_of
from esper_agents.traces.scopes import marked_node
from esper_agents.traces.written_numbers import number_of

SETTINGS = """\
from dataclasses import dataclass
import argparse

WIDTH = 12
TABLE = {"depth": 3, "rate": 0.1}


@dataclass
class Settings:
    slots: int = 20
    heads: int = 4


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--window", type=int, default=8)
    return parser.parse_args()
"""

DATA = """\
import torch
from torch.utils.data import DataLoader, Dataset, random_split


class Rows(Dataset):
    def __init__(self, length, scale=2):
        self.values = torch.arange(length, dtype=torch.float64)
        self.scale = scale

    def __getitem__(self, index):
        return {"x": self.values[index], "y": index * self.scale}


def collate(samples):
    xs = torch.stack([sample["x"] for sample in samples])
    ys = torch.tensor([sample["y"] for sample in samples])
    return xs, ys


def loader():
    train, test = random_split(Rows(9), [6, 3])
    return DataLoader(train, batch_size=2, collate_fn=collate)
"""

USE = """\
from data import loader
from settings import TABLE, WIDTH, Settings, options


class Net:
    def __init__(self, width, settings):
        self.width = width
        self.size = width * settings.heads

    def run(self, batch):
        x, y = batch
        return x


def again(n):
    return again(n - 1)[0]


def main():
    args = options()
    settings = Settings(slots=5)
    net = Net(WIDTH, settings)
    for number, (xs, ys) in enumerate(loader()):
        out = net.run((xs, ys))
        print(out, ys, net.size, settings.slots, args.window, TABLE["depth"], again(3))
"""


@pytest.fixture(scope="module")
def tracer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("origins")
    for name, text in (("settings.py", SETTINGS), ("data.py", DATA), ("use.py", USE)):
        (folder / name).write_text(text)
    return OriginTracer(ProjectSources(folder))


def _origin(tracer, text):
    scope = tracer.index.scope_at(Location("use.py", 25))
    (node,) = [
        each
        for each in ast.walk(tracer.index.tree("use.py"))
        if isinstance(each, ast.expr) and each.lineno == 25 and ast.unparse(each) == text
    ]
    return tracer, node, scope


@pytest.mark.parametrize(
    ("text", "number", "place"),
    [
        ("net.size", 48, "use.py:8"),
        ("settings.slots", 5, "use.py:21"),
        ("args.window", 8, "settings.py:16"),
        ("TABLE['depth']", 3, "settings.py:5"),
    ],
)
def test_a_number_is_found_through_constructors_settings_and_options(tracer, text, number, place):
    tracer, node, scope = _origin(tracer, text)
    assert number_of(tracer, node, scope) == number
    assert str(place_of(tracer.last(node, scope))) == place


def test_a_batch_is_followed_through_the_collate_function_into_the_dataset(tracer):
    tracer, node, scope = _origin(tracer, "out")
    steps = [str(place_of(each)) for each in tracer.chain(node, scope)]
    assert steps[-1] == "data.py:7"
    assert "data.py:15" in steps
    made = made_value(tracer.chain(node, scope))
    assert made is not None
    assert made.text == "torch.arange(length, dtype=torch.float64)"


def test_labels_come_from_the_sample_of_the_dataset(tracer):
    tracer, node, scope = _origin(tracer, "ys")
    assert tracer.last(node, scope).text == "index * self.scale"


def test_a_function_that_calls_itself_ends_the_search(tracer):
    tracer, node, scope = _origin(tracer, "again(3)")
    assert len(tracer.chain(node, scope)) < 50


def test_a_marked_part_is_one_expression_of_its_line():
    tree = ast.parse("h = tok(x) + pos(y)\n")
    node = marked_node(tree, 1, "pos(y)")
    assert node is not None
    assert (node.lineno, node.col_offset) == (1, 13)
    assert marked_node(tree, 1, "pos(z)") is None
    assert marked_node(tree, 1, "pos(") is None
