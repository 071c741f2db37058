"""The line that keeps something is found in the source, also where there are several."""

from __future__ import annotations

import pytest

from esper_agents.torchlab.worker.memory.retaining_lines import graph_keeping_line, is_compared, keeping_line

SOURCE = """losses = []
by_name = {}


class First:
    def __init__(self):
        self.kept = []
        self.total = 0

    def step(self, loss):
        self.kept.append(loss)
        self.total += loss


class Second:
    def __init__(self):
        self.kept = {}
        self.last: object = None

    def step(self, name, loss):
        self.kept[name] = loss
        self.last, other = loss, name


def train(model):
    losses = []
    losses.append(model())
    by_name.setdefault("a", []).append(1)
    model().backward(retain_graph=True)


def other(model, **options):
    model().backward(retain_graph=False, **options)
    losses.append(model())
    model().backward(create_graph=True)
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SOURCE, encoding="utf-8")
    return str(path)


def line(text, *, last=False):
    numbers = [number for number, each in enumerate(SOURCE.splitlines(), 1) if each.strip() == text]
    return numbers[-1] if last else numbers[0]


@pytest.mark.parametrize(
    ("name", "is_attribute", "near", "only_near", "text"),
    [
        ("kept", True, 5, False, "self.kept.append(loss)"),
        ("kept", True, 15, False, "self.kept[name] = loss"),
        ("total", True, 5, False, "self.total += loss"),
        ("last", True, 15, False, "self.last, other = loss, name"),
        ("by_name", False, 0, False, 'by_name.setdefault("a", []).append(1)'),
        ("losses", False, 25, True, "losses.append(model())"),
    ],
)
def test_the_line_that_keeps_is_the_one_that_adds(file, name, *, is_attribute, near, only_near, text):
    found = keeping_line(file, name, is_attribute=is_attribute, near=near, only_near=only_near)
    assert (found.number, found.text) == (line(text), text)


def test_a_variable_is_no_attribute_of_the_same_name(file):
    assert keeping_line(file, "kept", is_attribute=False) is None
    assert keeping_line(file, "losses", is_attribute=True) is None


def test_of_several_lines_that_keep_a_global_the_last_is_told(file):
    assert keeping_line(file, "losses", is_attribute=False).number == line("losses.append(model())", last=True)


@pytest.mark.parametrize(("near", "text"), [(25, "retain_graph=True"), (33, "create_graph=True")])
def test_the_call_that_keeps_a_graph_is_looked_for_nearby_first(file, near, text):
    assert text in graph_keeping_line(file, near).text


def test_an_attribute_is_a_capacity_only_where_its_class_compares_it(tmp_path):
    path = tmp_path / "replay.py"
    path.write_text(
        "class Replay:\n    def push(self):\n        if len(self.kept) < self.capacity:\n            self.limit = 1\n",
        encoding="utf-8",
    )
    assert is_compared(str(path), 1, "capacity")
    assert not is_compared(str(path), 1, "limit")
    assert not is_compared(str(path), 9, "capacity")


@pytest.mark.parametrize("text", ["def (", "x = 1\x00", "\udcff"])
def test_a_file_that_cannot_be_read_has_no_such_line(tmp_path, text):
    path = tmp_path / "broken.py"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert keeping_line(str(path), "kept", is_attribute=True) is None
    assert graph_keeping_line(str(path), 1) is None
    assert graph_keeping_line(str(tmp_path / "absent.py"), 1) is None
