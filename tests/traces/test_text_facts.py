"""A number that arrives as text is followed to the settings file, option or constant that writes it."""

from __future__ import annotations

import pytest

from tests.traces.printed_traces import explain_printed

_ERROR = "TypeError: '<=' not supported between instances of 'float' and 'str'"
_LOADED = """\
import torch
import yaml


def settings():
    with open("run.yaml") as file:
        return yaml.safe_load(file)


def optimizer_of(model, part):
    return torch.optim.SGD(model.parameters(), lr=part["rate"])


def main(model):
    everything = settings()
    return optimizer_of(model, everything["optimizer"])
"""
_FRAMES = [
    ("run.py", 'return optimizer_of(model, everything["optimizer"])', "main", ""),
    ("run.py", 'return torch.optim.SGD(model.parameters(), lr=part["rate"])', "optimizer_of", ""),
]


def test_a_number_that_yaml_reads_as_text_is_found_in_its_file(tmp_path):
    files = {"run.py": _LOADED, "run.yaml": "model:\n  rate: 0.5\noptimizer:\n  rate: 1e-3\n"}
    explained = explain_printed(tmp_path, files, _FRAMES, _ERROR)
    assert explained.answer.startswith("run.yaml:4: `part['rate']` is `1e-3`")
    assert explained.fix == "Write `1.0e-3` at run.yaml:4."
    assert "run.py:11" in explained.answer


@pytest.mark.parametrize(
    "settings",
    ["optimizer:\n  rate: 0.001\n", "optimizer: &one\n  rate: 1e-3\n", "optimizer: [", "other:\n  rate: 1e-3\n"],
    ids=["a number", "an alias", "not YAML", "another part"],
)
def test_a_settings_file_that_does_not_show_it_is_not_named(tmp_path, settings):
    explained = explain_printed(tmp_path, {"run.py": _LOADED, "run.yaml": settings}, _FRAMES, _ERROR)
    assert "run.yaml" not in explained.answer + explained.fix


def test_an_option_without_type_is_the_line_to_change(tmp_path):
    text = """\
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--rate", default="1e-3")
options = parser.parse_args()
optimizer = torch.optim.SGD([torch.zeros(1)], lr=options.rate)
"""
    frames = [("run.py", "optimizer = torch.optim.SGD([torch.zeros(1)], lr=options.rate)", "<module>", "")]
    explained = explain_printed(tmp_path, {"run.py": text}, frames, _ERROR)
    assert str(explained.location) == "run.py:5"
    assert "type=float" in explained.fix


def test_an_option_without_type_and_default_is_text_from_the_command_line(tmp_path):
    text = """\
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--rate")
options = parser.parse_args()
optimizer = torch.optim.SGD([torch.zeros(1)], lr=options.rate)
"""
    frames = [("run.py", "optimizer = torch.optim.SGD([torch.zeros(1)], lr=options.rate)", "<module>", "")]
    explained = explain_printed(tmp_path, {"run.py": text}, frames, _ERROR)
    assert str(explained.location) == "run.py:5"


def test_a_converted_option_is_not_named(tmp_path):
    text = """\
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--rate", default="1e-3")
options = parser.parse_args()
optimizer = torch.optim.SGD([torch.zeros(1)], lr=float(options.rate))
"""
    frames = [("run.py", "optimizer = torch.optim.SGD([torch.zeros(1)], lr=float(options.rate))", "<module>", "")]
    explained = explain_printed(tmp_path, {"run.py": text}, frames, _ERROR)
    assert not explained.answer.startswith("run.py:5")
