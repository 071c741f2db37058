"""Tests of the facts about code in `esper_agents.traces`: a change names only what is bound at its line."""

from __future__ import annotations

import re

import pytest

from esper_agents.traces.explain import explain_text
from esper_agents.traces.families import error_families

DEVICES = (
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!\n"
)
NO_GRAD = "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn\n"


def explained(tmp_path, source, line, message, function="forward"):
    (tmp_path / "net.py").write_text(source)
    text = source.splitlines()[line - 1].strip()
    return explain_text(
        f'Traceback:\n  File "/srv/net.py", line {line}, in {function}\n    {text}\n{message}', tmp_path
    )


@pytest.mark.parametrize(
    ("body", "change"),
    [
        (
            ("def forward(self, hidden):", "    mask = torch.ones(4)", "    return hidden.mean() * mask"),
            "write `torch.ones(4, device=hidden.device)`",
        ),
        (
            ("def forward(self, hidden, n):", "    return self.fc(hidden) * torch.arange(n)"),
            "write `torch.arange(n, device=hidden.device)`",
        ),
        (
            ("def forward(self, n):", "    return self.weight * torch.arange(n)"),
            "create it with the `device=` of the tensors that it is combined with",
        ),
    ],
)
def test_a_tensor_is_created_on_the_device_of_a_name_that_is_bound(tmp_path, body, change) -> None:
    source = "import torch\n" + "\n".join(body) + "\n"
    explanation = explained(tmp_path, source, len(body) + 1, DEVICES)
    assert explanation.cause == "created-on-cpu"
    assert change in explanation.fix


def test_a_tensor_that_the_failing_line_does_not_use_is_not_blamed(tmp_path) -> None:
    source = "import torch\ndef forward(self, x):\n    unused = torch.ones(4)\n    return x * self.scale\n"
    assert explained(tmp_path, source, 4, DEVICES).cause != "created-on-cpu"


HALF = "RuntimeError: mat1 and mat2 must have the same dtype, but got Float and Half\n"
STATE = """import torch
from torch import nn


class Net(nn.Module):
    def initial(self, batch):
        return torch.zeros(batch, 16)

    def forward(self, x):
        state = self.initial(len(x))
        both = torch.cat([x, state], 1)
        return self.fc(both)
"""


def test_a_tensor_that_the_failing_line_gets_in_float32_is_found_through_names_and_methods(tmp_path) -> None:
    explanation = explained(tmp_path, STATE, 12, HALF)
    assert (explanation.cause, str(explanation.location)) == ("created-in-float32", "net.py:7")
    assert "write `torch.zeros(batch, 16, dtype=next(self.parameters()).dtype)`" in explanation.fix


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("16)", "16).to(x)"),
        ("16)", "16, dtype=torch.half)"),
        ("zeros(batch, 16)", "randint(2, (batch, 16))"),
        ("        state", "        x = x + torch.ones(1)\n        state"),
    ],
)
def test_no_creation_is_blamed_that_has_another_dtype_or_is_one_of_several(tmp_path, old, new) -> None:
    source = STATE.replace(old, new)
    explanation = explained(tmp_path, source, source.splitlines().index("        return self.fc(both)") + 1, HALF)
    assert explanation.cause == "half-precision"


def test_an_accuracy_beside_the_loss_does_not_cut_the_loss_off(tmp_path) -> None:
    source = (
        "def train(model, x, y):\n    out = model(x)\n    right = (out.argmax(1) == y).sum().item()\n"
        "    loss = criterion(out, y)\n    loss.backward()\n"
    )
    assert explained(tmp_path, source, 5, NO_GRAD, "train").cause == ""


def test_a_loss_function_that_returns_a_new_tensor_cuts_the_loss_off(tmp_path) -> None:
    source = (
        "def total(out, y):\n    return torch.tensor(mse(out, y).item())\n\n"
        "def train(x, y):\n    loss = total(model(x), y)\n    loss.backward()\n"
    )
    explanation = explained(tmp_path, source, 6, NO_GRAD, "train")
    assert (explanation.cause, str(explanation.location)) == ("cut", "net.py:2")


def test_no_change_uses_the_name_of_a_variable_that_may_not_exist() -> None:
    names = re.compile(r"(?<![\w.{])(?:x|y|tokens|target|hidden|ids|array|losses|logits)\b(?=[.\[ ])")
    for family in error_families():
        for cause in family.causes:
            for code in re.findall(r"`([^`]*)`", f"{cause.fix} {cause.tell}"):
                assert not names.search(code), (family.name, cause.name, code)


def test_labels_made_in_the_call_of_the_loss_do_not_cut_it_off(tmp_path) -> None:
    source = "def train(x):\n    loss = cross_entropy(net(x), torch.tensor([0, 1]))\n    loss.backward()\n"
    assert explained(tmp_path, source, 3, NO_GRAD, "train").cause == ""


def test_a_forward_without_recording_is_found(tmp_path) -> None:
    source = (
        "class Net(nn.Module):\n    @torch.no_grad()\n    def forward(self, x):\n        return x\n\n"
        "def train(net, x):\n    loss = net(x).mean()\n    loss.backward()\n"
    )
    explanation = explained(tmp_path, source, 8, NO_GRAD, "train")
    assert (explanation.cause, str(explanation.location)) == ("disabled", "net.py:2")


def test_a_result_that_depends_on_argmax_is_cut_off_there(tmp_path) -> None:
    source = (
        "def total(x, y):\n    pred = net(x).argmax(dim=1).float()\n    return (pred - y).abs().mean()\n\n"
        "def train(x, y):\n    loss = total(x, y)\n    loss.backward()\n"
    )
    assert str(explained(tmp_path, source, 7, NO_GRAD, "train").location) == "net.py:2"


IN_PLACE = (
    "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [2]], which is output 0 of AddBackward0, is at version 1; expected version 0 instead.\n"
)


def test_an_input_that_a_layer_keeps_is_changed_after_it(tmp_path) -> None:
    source = (
        "def forward(self, x):\n    y = self.a(x)\n    z = self.b(y)\n    y += x\n    return z + y\n\n"
        "def train(net, x):\n    net(x).sum().backward()\n"
    )
    explanation = explained(tmp_path, source, 8, IN_PLACE, "train")
    assert str(explanation.location) == "net.py:4"
    assert "`self.b(y)` at net.py:3 needs it" in explanation.answer
    assert explanation.fix == "Write `y = y + x`."


def test_of_two_places_in_other_files_none_is_guessed(tmp_path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text("def f(x):\n    g = torch.sigmoid(x)\n    g *= 2\n    return g\n")
    source = "def train(net, x):\n    net(x).sum().backward()\n"
    assert explained(tmp_path, source, 2, IN_PLACE.replace("Add", "Sigmoid"), "train").cause == ""


def test_an_entry_that_was_saved_under_another_name_is_named(tmp_path) -> None:
    source = (
        "def save(net):\n    torch.save({'model_state_dict': net.state_dict(), 'epoch': 1}, PATH)\n\n"
        "def load(net):\n    net.load_state_dict(torch.load(PATH)['state_dict'])\n"
    )
    explanation = explained(tmp_path, source, 5, "KeyError: 'state_dict'\n", "load")
    assert "`torch.save` at net.py:2 writes `model_state_dict`, `epoch`" in explanation.answer


OPTIMIZER = """from torch.optim import Optimizer


class Lookahead(Optimizer):
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def state_dict(self):
        return super().state_dict()
"""
UNSET = (
    "AttributeError: 'Lookahead' object has no attribute '_optimizer_state_dict_pre_hooks'. "
    "Did you mean: 'register_state_dict_pre_hook'?\n"
)
IN_TORCH = (
    '  File "/opt/venv/lib/python3.11/site-packages/torch/optim/optimizer.py", line 734, in state_dict\n'
    "    for pre_hook in self._optimizer_state_dict_pre_hooks.values():\n"
)


def test_an_attribute_that_a_base_class_reads_is_missing_because_its_init_was_not_called(tmp_path) -> None:
    explanation = explained(tmp_path, OPTIMIZER, 9, f"{IN_TORCH}{UNSET}", "state_dict")
    assert explanation.cause == "base-not-initialized"
    assert explanation.fix == "Call `super().__init__(...)` at net.py:5 with the arguments of `Optimizer`."


def test_a_name_that_python_suggests_is_no_advice_for_a_line_of_an_installed_package(tmp_path) -> None:
    called = OPTIMIZER.replace("        self.optimizer", "        super().__init__([], {})\n        self.optimizer")
    explanation = explained(tmp_path, called, 10, f"{IN_TORCH}{UNSET}", "state_dict")
    assert explanation.cause not in {"base-not-initialized", "suggested"}
    own = "def f(net):\n    return net.weights\n"
    message = "AttributeError: 'Linear' object has no attribute 'weights'. Did you mean: 'weight'?\n"
    assert explained(tmp_path, own, 2, message, "f").cause == "suggested"


INDEX = "IndexError: index out of range in self\n"
TABLES = """from torch import nn


class Net(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.tables = nn.ModuleList()
        for size in sizes:
            self.tables.append(nn.Embedding(size, 4))

    def forward(self, x, i):
        return self.tables[i](x)
"""


def test_an_index_is_compared_with_the_expression_that_sizes_the_tables_of_the_class(tmp_path) -> None:
    explanation = explained(tmp_path, TABLES, 12, INDEX)
    assert "net.py:9" in explanation.answer
    assert "`size` comes from `sizes`" in explanation.answer
    assert "tokenizer" not in explanation.answer + explanation.fix


@pytest.mark.parametrize("is_imported", [True, False])
def test_a_tokenizer_is_advised_only_to_a_project_with_transformers(tmp_path, is_imported) -> None:
    source = (
        "import transformers\n" if is_imported else "import torch\n"
    ) + "def run(model, x):\n    return model(x)\n"
    assert ("tokenizer" in explained(tmp_path, source, 3, INDEX, "run").fix) is is_imported


WRAPPER = """class Plain:
    def forward(self, a, b=None, c=None):
        return a


class Wrapper:
    def __init__(self, inner, alone):
        self.inner = inner
        self.alone = alone

    def forward(self, a, b, c, d):
        if self.alone:
            return self.inner(a, b, c, d)
        return self.inner(a) if isinstance(self.inner, Plain) else self.inner(a, b, c, d)
"""


def test_too_many_arguments_state_the_range_the_definition_and_the_test_for_the_class(tmp_path) -> None:
    message = "TypeError: Plain.forward() takes from 2 to 4 positional arguments but 5 were given\n"
    explanation = explained(tmp_path, WRAPPER, 13, message)
    assert "takes from 2 to 4 (self included)" in explanation.answer
    assert "net.py:2 defines `forward(self, a, b=None, c=None)`" in explanation.answer
    assert "net.py:14 treats this class apart (`isinstance(self.inner, Plain)`)" in explanation.answer


def test_a_plain_function_with_too_many_arguments_is_said_to_have_no_self(tmp_path) -> None:
    message = "TypeError: f() takes 1 positional argument but 2 were given\n"
    explanation = explained(tmp_path, "def f(a):\n    return a\n\n\nf(1, 2)\n", 5, message, "<module>")
    assert "self" not in explanation.answer + explanation.fix


INFERENCE = "RuntimeError: Inference tensors cannot be saved for backward.\n"


@pytest.mark.parametrize("off", ["@torch.inference_mode()", "@torch.no_grad()"])
def test_the_function_under_inference_mode_that_the_request_calls_is_named(tmp_path, off) -> None:
    made = f"    {off}\n    def draw(self):\n        return torch.rand(3)\n"
    source = f"import torch\n\n\nclass Net:\n{made}\n    def forward(self, x):\n        return self.conv(x)\n"
    explanation = explained(tmp_path, source, 10, INFERENCE + "\n(line 8 is x = teacher.draw(4))\n")
    assert ("`draw` (net.py:6)" in explanation.answer) is (off == "@torch.inference_mode()")
    assert "never" not in explanation.why


def test_a_function_inside_another_is_not_said_to_count_self(tmp_path) -> None:
    message = "TypeError: outer.<locals>.f() takes 1 positional argument but 2 were given\n"
    assert "self" not in explained(tmp_path, "def f(a):\n    return a\n\n\nf(1, 2)\n", 5, message, "<module>").answer


def test_a_call_under_the_test_for_its_class_is_not_said_to_lack_it(tmp_path) -> None:
    source = WRAPPER.replace("if self.alone:", "if isinstance(self.inner, Plain):").replace(
        "return self.inner(a) if isinstance(self.inner, Plain) else ", "return "
    )
    message = "TypeError: Plain.forward() takes from 2 to 4 positional arguments but 5 were given\n"
    assert "apart" not in explained(tmp_path, source, 13, message).answer


GRAPH_IN_EVALUATION = """import torch


class Block(torch.nn.Module):
    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return estimate(self.net(x), x)


def estimate(y, x):
    return torch.autograd.grad(y.sum(), x)[0]
"""


def test_a_graph_that_evaluation_needs_is_not_recorded_in_inference_mode(tmp_path) -> None:
    (tmp_path / "net.py").write_text(GRAPH_IN_EVALUATION)
    trace = (
        'Traceback:\n  File "/srv/net.py", line 8, in forward\n    return estimate(self.net(x), x)\n'
        f'  File "/srv/net.py", line 12, in estimate\n    return torch.autograd.grad(y.sum(), x)[0]\n{NO_GRAD}'
    )
    found = explain_text(f"since we switched from no_grad to torch.inference_mode() it crashes\n{trace}", tmp_path)
    assert found.cause == "inference-mode"
    assert "`torch.enable_grad()` at net.py:6" in found.answer
    assert "torch.no_grad()" in found.fix
    assert explain_text(f"it crashes\n{trace}", tmp_path).cause != "inference-mode"


LATER = """class Loader:
    def __init__(self):
        self.iterator = None

    def __iter__(self):
        self.iterator = iter(range(3))
        return self.iterator

    def counts(self):
        return self.iterator.total


def run(loader):
    counts = loader.counts()
    for batch in loader:
        print(batch, counts)
"""


def test_an_attribute_that_a_later_method_sets_is_named_with_what_comes_before(tmp_path) -> None:
    (tmp_path / "net.py").write_text(LATER)
    trace = (
        'Traceback:\n  File "/srv/net.py", line 14, in run\n    counts = loader.counts()\n'
        '  File "/srv/net.py", line 10, in counts\n    return self.iterator.total\n'
        "AttributeError: 'NoneType' object has no attribute 'total'"
    )
    found = explain_text(trace, tmp_path)
    assert found.answer == (
        "net.py:10: `self.iterator` is None from net.py:3 until a loop over the object begins, which sets it at "
        "net.py:6, and net.py:14 comes before that."
    )
    assert found.fix.startswith("Move the call behind the point where a loop over the object begins")
    (tmp_path / "net.py").write_text(LATER.replace("self.iterator = None", "self.iterator = make()"))
    assert explain_text(trace, tmp_path).cause != "set-later"
