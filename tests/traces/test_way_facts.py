"""Lines in other functions that cut the graph, write into an argument, or leave a name without a value."""

from __future__ import annotations

import pytest

from tests.traces.printed_traces import explain_printed

_MEASURE = """\
def gap(left, right):
    apart = (left - right).detach().abs()
    return apart.mean()
"""
_FIT = """\
from measure import gap


def fit(model, rows, wanted):
    loss = gap(model(rows), wanted)
    loss.backward()
"""
_NO_GRAPH = "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn"


def test_a_detach_in_the_function_of_the_loss_is_the_line_to_change(tmp_path):
    frames = [("fit.py", "loss.backward()", "fit", "")]
    explained = explain_printed(tmp_path, {"measure.py": _MEASURE, "fit.py": _FIT}, frames, _NO_GRAPH)
    assert str(explained.location) == "measure.py:2"
    assert "fit.py:6" in explained.answer


def test_a_detach_beside_a_value_with_a_graph_is_not_blamed(tmp_path):
    measure = _MEASURE.replace("apart.mean()", "(apart * left).mean()")
    frames = [("fit.py", "loss.backward()", "fit", "")]
    explained = explain_printed(tmp_path, {"measure.py": measure, "fit.py": _FIT}, frames, _NO_GRAPH)
    assert "measure.py:2" not in explained.answer


_HELPER = "def shift(values):\n    values -= values.mean()\n    return values\n"
_NET = """\
import torch
from helper import shift


def run(one, two, rows):
    hidden = torch.sigmoid(one(rows))
    two(shift(hidden)).sum().backward()
"""
_WRITTEN = (
    "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [5, 8]], which is output 0 of SigmoidBackward0, is at version 1; expected version 0"
)


def test_a_function_that_writes_into_its_argument_is_the_line_to_change(tmp_path):
    frames = [("net.py", "two(shift(hidden)).sum().backward()", "run", "")]
    explained = explain_printed(tmp_path, {"helper.py": _HELPER, "net.py": _NET}, frames, _WRITTEN)
    assert str(explained.location) == "helper.py:2"
    assert "sigmoid at net.py:6" in explained.answer


@pytest.mark.parametrize(
    "change", [("values -= ", "values = values - "), ("    values -=", "    values = values * 1\n    values -=")]
)
def test_a_function_that_writes_into_its_own_value_is_not_blamed(tmp_path, change):
    frames = [("net.py", "two(shift(hidden)).sum().backward()", "run", "")]
    explained = explain_printed(tmp_path, {"helper.py": _HELPER.replace(*change), "net.py": _NET}, frames, _WRITTEN)
    assert "helper.py" not in explained.answer


def test_an_argument_that_the_only_caller_leaves_at_none_names_both_lines(tmp_path):
    files = {
        "loop.py": "class Loop:\n    def __init__(self, plan=None):\n        self.plan = plan\n\n"
        "    def run(self):\n        self.plan.step()\n",
        "main.py": "from loop import Loop\n\nLoop().run()\n",
    }
    frames = [("main.py", "Loop().run()", "<module>", ""), ("loop.py", "self.plan.step()", "run", "")]
    explained = explain_printed(tmp_path, files, frames, "AttributeError: 'NoneType' object has no attribute 'step'")
    assert "loop.py:2 makes it so" in explained.answer
    assert "main.py:3 does not pass it" in explained.answer


def test_a_layer_size_is_followed_through_the_attribute_of_another_file(tmp_path):
    files = {
        "trunk.py": "from torch import nn\n\n\nclass Trunk(nn.Module):\n    def __init__(self, width):\n"
        "        super().__init__()\n        self.outputs = width\n",
        "net.py": "from torch import nn\nfrom trunk import Trunk\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.trunk = Trunk(16)\n"
        "        self.head = nn.Linear(self.trunk.outputs + 2, 4)\n\n    def forward(self, rows):\n"
        "        return self.head(self.trunk(rows))\n",
    }
    frames = [("net.py", "return self.head(self.trunk(rows))", "forward", "self.head(self.trunk(rows))")]
    error = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x66 and 18x4)"
    explained = explain_printed(tmp_path, files, frames, error)
    assert "`self.trunk.outputs` is `width` (trunk.py:7), which is `16` (net.py:8)" in explained.answer


def test_a_name_that_only_a_loop_assigns_names_the_loop(tmp_path):
    text = "def fit(rows):\n    for row in rows:\n        loss = row\n    return loss\n"
    error = "UnboundLocalError: cannot access local variable 'loss' where it is not associated with a value"
    explained = explain_printed(tmp_path, {"fit.py": text}, [("fit.py", "return loss", "fit", "")], error)
    assert "only fit.py:3 assigns" in explained.answer
    assert "fit.py:2" in explained.answer


def test_a_division_by_an_empty_length_names_what_it_counts(tmp_path):
    text = "from torch.utils.data import DataLoader\n\nloader = DataLoader(list(range(0)))\nmean = 1.0 / len(loader)\n"
    frames = [("fit.py", "mean = 1.0 / len(loader)", "<module>", "")]
    explained = explain_printed(tmp_path, {"fit.py": text}, frames, "ZeroDivisionError: float division by zero")
    assert "`loader` is empty" in explained.answer


def test_a_called_name_that_holds_a_value_names_the_assignment(tmp_path):
    text = "def measure(rows):\n    total = rows.sum()\n    return total(rows)\n"
    frames = [("fit.py", "return total(rows)", "measure", "total(rows)")]
    explained = explain_printed(tmp_path, {"fit.py": text}, frames, "TypeError: 'Tensor' object is not callable")
    assert "fit.py:2" in explained.answer


def test_a_target_that_is_made_of_floats_is_followed_to_the_dataset(tmp_path):
    files = {
        "rows.py": "import torch\nfrom torch.utils.data import Dataset\n\n\nclass Rows(Dataset):\n"
        "    def __getitem__(self, at):\n        kind = torch.tensor(self.kinds[at], dtype=torch.float32)\n"
        "        return self.data[at], kind\n",
        "fit.py": "from rows import Rows\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n\n"
        "model, criterion = nn.Linear(6, 3), nn.CrossEntropyLoss()\n"
        "for data, kinds in DataLoader(Rows(), batch_size=4):\n    loss = criterion(model(data), kinds)\n",
    }
    frames = [("fit.py", "loss = criterion(model(data), kinds)", "<module>", "criterion(model(data), kinds)")]
    error = "RuntimeError: expected scalar type Long but found Float"
    explained = explain_printed(tmp_path, files, frames, error)
    assert "float32 since rows.py:7" in explained.answer


_NORM = """\
import torch


class Norm(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.mean = torch.zeros(size)

    def forward(self, rows):
        self.mean = 0.9 * self.mean + 0.1 * rows.mean(0)
        return rows - self.mean
"""
_TWICE = "RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors"


@pytest.mark.parametrize(("value", "is_named"), [("rows.mean(0)", True), ("rows.detach().mean(0)", False)])
def test_the_only_attribute_that_keeps_its_graph_is_a_candidate(tmp_path, value, is_named):
    main = (
        "from norm import Norm\n\nnet = Norm(3)\nfor rows in batches:\n    loss = net(rows).sum()\n"
        "    loss.backward()\n"
    )
    files = {"norm.py": _NORM.replace("rows.mean(0)", value), "main.py": main}
    explained = explain_printed(tmp_path, files, [("main.py", "loss.backward()", "<module>", "")], _TWICE)
    assert ("norm.py:10" in explained.answer) is is_named
    assert not explained.is_certain
    assert explained.alternatives


def test_images_without_channel_dimension_are_a_candidate_with_the_line_that_makes_them(tmp_path):
    text = (
        "import torch\nfrom torch import nn\n\nlayer = nn.Conv2d(1, 4, 3)\n"
        "images = torch.stack([torch.rand(28, 28)] * 6)\n"
        "print(layer(images))\n"
    )
    error = (
        "RuntimeError: Given groups=1, weight of size [4, 1, 3, 3], expected input[1, 6, 28, 28] to have 1 channels, "
        "but got 6 channels instead"
    )
    frames = [("net.py", "print(layer(images))", "<module>", "layer(images)")]
    explained = explain_printed(tmp_path, {"net.py": text}, frames, error)
    assert "6 is the batch size if the images have no channel dimension" in explained.answer
    assert "net.py:5" in explained.answer
    assert not explained.is_certain


def test_a_batch_that_is_a_dictionary_gets_the_change_for_its_tensors(tmp_path):
    text = "batch = {'left': left}\nbatch = batch.to(device)\n"
    frames = [("fit.py", "batch = batch.to(device)", "<module>", "batch.to")]
    error = "AttributeError: 'dict' object has no attribute 'to'"
    explained = explain_printed(tmp_path, {"fit.py": text}, frames, error)
    assert "{name: value.to(device) for name, value in batch.items()}" in explained.fix


def test_the_tuple_of_a_recurrent_layer_names_the_line_that_returns_it(tmp_path):
    files = {
        "encoder.py": "from torch import nn\n\n\nclass Encoder(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.rnn = nn.GRU(4, 8)\n\n    def forward(self, steps):\n"
        "        return self.rnn(steps)\n",
        "net.py": "from encoder import Encoder\nfrom torch import nn\n\nencoder, head = Encoder(), nn.Linear(8, 2)\n"
        "\n\ndef run(steps):\n    hidden = encoder(steps)\n    return head(hidden)\n",
    }
    frames = [("net.py", "return head(hidden)", "run", "head(hidden)")]
    error = "TypeError: linear(): argument 'input' (position 1) must be Tensor, not tuple"
    explained = explain_printed(tmp_path, files, frames, error)
    assert "encoder.py:10" in explained.answer


@pytest.mark.parametrize(("elements", "is_named"), [(420, True), (392, False)])
def test_a_view_whose_size_is_rounded_down_names_the_divisor_in_the_settings(tmp_path, elements, is_named):
    text = (
        "import yaml\n\n\ndef split(rows, width, heads):\n    return rows.view(2, 7, heads, width // heads)\n\n\n"
        "settings = yaml.safe_load(open('net.yaml'))\nsplit(rows, settings['width'], settings['heads'])\n"
    )
    frames = [
        ("net.py", "split(rows, settings['width'], settings['heads'])", "<module>", ""),
        ("net.py", "return rows.view(2, 7, heads, width // heads)", "split", "rows.view(2, 7, heads, width // heads)"),
    ]
    error = f"RuntimeError: shape '[2, 7, 4, 7]' is invalid for input of size {elements}"
    files = {"net.py": text, "net.yaml": "width: 30\nheads: 4\n"}
    explained = explain_printed(tmp_path, files, frames, error)
    assert ("4 at net.yaml:2" in explained.answer) is is_named


def test_a_size_that_a_loop_sets_is_followed_one_step_only(tmp_path):
    text = (
        "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self, widths=(8, 16)):\n"
        "        super().__init__()\n        for width in widths:\n            self.size = width\n"
        "        self.head = nn.Linear(self.size, 4)\n\n    def forward(self, rows):\n        return self.head(rows)\n"
    )
    frames = [("net.py", "return self.head(rows)", "forward", "self.head(rows)")]
    error = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x64 and 16x4)"
    explained = explain_printed(tmp_path, {"net.py": text}, frames, error)
    assert "`self.size` is `width` (net.py:8)." in explained.answer
    assert "is `8`" not in explained.answer


@pytest.mark.parametrize(("name", "is_named"), [("codes", True), ("counts", False)])
def test_the_only_write_into_a_parameter_is_a_candidate(tmp_path, name, is_named):
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Book(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.codes = nn.Parameter(torch.rand(4, 2))\n"
        "        self.counts = torch.zeros(4, 2)\n\n    @torch.no_grad()\n    def move(self, row, value):\n"
        f"        self.{name}[row] = value\n\n\nbook = Book()\nloss = book.codes.pow(2).sum()\nbook.move(0, 1.0)\n"
        "loss.backward()\n"
    )
    error = (
        "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: "
        "[torch.FloatTensor [4, 2]] is at version 1; expected version 0 instead."
    )
    explained = explain_printed(tmp_path, {"net.py": text}, [("net.py", "loss.backward()", "<module>", "")], error)
    assert ("net.py:13 writes into the parameter `self.codes`" in explained.answer) is is_named
    assert not explained.is_certain


def test_a_key_is_looked_for_in_the_dictionary_that_a_copy_was_made_of(tmp_path):
    text = (
        "def pack(rows):\n    return {'ids': rows, 'kind': rows}\n\n\ndef moved(batch):\n"
        "    return {name: part.to('cpu') for name, part in batch.items()}\n\n\ndef loss(rows):\n"
        "    batch = moved(pack(rows))\n    return batch['kinds']\n"
    )
    frames = [("fit.py", "return batch['kinds']", "loss", "batch['kinds']")]
    explained = explain_printed(tmp_path, {"fit.py": text}, frames, "KeyError: 'kinds'")
    assert "`ids`, `kind` (made at fit.py:2)" in explained.answer


def test_the_number_that_a_function_makes_of_the_loss_is_the_line_to_change(tmp_path):
    files = {
        "loop.py": "def total(model, batches):\n    sum_ = 0.0\n    for rows in batches:\n"
        "        sum_ += model(rows).mean().item()\n    return sum_\n",
        "fit.py": "from loop import total\n\nloss = total(model, batches)\nloss.backward()\n",
    }
    error = "AttributeError: 'float' object has no attribute 'backward'"
    explained = explain_printed(tmp_path, files, [("fit.py", "loss.backward()", "<module>", "loss.backward")], error)
    assert str(explained.location) == "loop.py:4"
    assert "fit.py:4" in explained.answer


@pytest.mark.parametrize(("call", "is_named"), [("squeeze()", True), ("squeeze(-1)", False)])
def test_a_squeeze_without_dimension_is_a_candidate(tmp_path, call, is_named):
    text = (
        "import torch\n\n\ndef scores(layer, rows):\n"
        f"    return layer(rows).{call}\n\n\ndef best(layer, rows):\n    found = scores(layer, rows)\n"
        "    return torch.softmax(found, dim=1)\n"
    )
    frames = [("net.py", "return torch.softmax(found, dim=1)", "best", "torch.softmax(found, dim=1)")]
    error = "IndexError: Dimension out of range (expected to be in range of [-1, 0], but got 1)"
    explained = explain_printed(tmp_path, {"net.py": text}, frames, error)
    assert ("net.py:5" in explained.answer) is is_named
    assert not (is_named and explained.is_certain)


def test_a_last_batch_of_one_sample_names_the_loader_of_another_file(tmp_path):
    files = {
        "data.py": "from torch.utils.data import DataLoader\n\n\ndef feed(rows):\n"
        "    return DataLoader(rows, batch_size=8)\n",
        "fit.py": "from data import feed\n\nfor rows in feed(table):\n    net(rows)\n",
    }
    error = "ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 8])"
    explained = explain_printed(tmp_path, files, [("fit.py", "net(rows)", "<module>", "")], error)
    assert "data.py:5" in explained.answer
