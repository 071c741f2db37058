"""Tests of how much a graph break matters, and of further forms of what the versions of torch decide."""

from __future__ import annotations

from textwrap import indent

import pytest

from tests.review.conftest import reviewed

STEP = """
import numpy as np
import torch
from torch.compiler import is_compiling

@torch.compile{options}
def step(x, done):
    compiling = is_compiling()
{body}
    return x
"""


def severities(body, options=""):
    claims = reviewed(STEP.format(options=options, body=indent(body, "    ")), "ESP501").claims
    return [str(claim.severity) for claim in claims]


@pytest.mark.parametrize(
    ("body", "options", "expected"),
    [
        ("x.sum().backward()", "", ["suggestion"]),
        ("x.sum().backward()", "(fullgraph=True)", ["warning"]),
        ("if done.any():\n    raise ValueError", "", ["suggestion"]),
        ("if done.any():\n    x = x + 1", "", ["warning"]),
        ("if x.ndim > 2 and not compiling and not x.isfinite().all():\n    x = x + 1", "", []),
        ("if not is_compiling() and not x.isfinite().all():\n    x = x + 1", "", []),
        ("x = x[x > 0]", "", ["warning"]),
        ("x[x > 0] = 1", "", []),
        ("x = torch.where(x > 0)[0]", "", ["warning"]),
        ("x = torch.where(x > 0, x, 0)", "", []),
        ("top = np.percentile(x.cpu().numpy(), 99)\nx = x / float(top)", "", ["warning"]),
    ],
)
def test_a_break_counts_by_what_hangs_on_it(body, options, expected):
    assert severities(body, options) == expected


def test_a_break_beyond_one_call_is_a_suggestion():
    helpers = "def outer(x):\n    return inner(x)\n\ndef inner(x):\n    return x + 1 if x.sum() > 0 else x\n"
    source = STEP.format(options="", body="    x = outer(x)") + helpers
    assert [str(claim.severity) for claim in reviewed(source, "ESP501").claims] == ["suggestion"]
    near = STEP.format(options="", body="    x = inner(x)") + helpers
    assert [str(claim.severity) for claim in reviewed(near, "ESP501").claims] == ["warning"]


def test_a_function_compiled_by_decorator_in_every_round_is_found(found):
    source = """
    import torch

    def fit(model, loader):
        for x in loader:
            @torch.compile
            def step(x):
                return model(x)
            step(x)
    """
    assert found("ESP504", source) == ["@torch.compile"]


@pytest.mark.parametrize(
    ("caught", "count"),
    [("RuntimeError", 2), ("(ValueError, RuntimeError)", 2), ("AttributeError", 0), ("(ImportError, RuntimeError)", 0)],
)
def test_a_try_counts_as_asking_for_the_version_by_what_it_catches(found, caught, count):
    source = f"""
    import torch

    def roots(a):
        try:
            return torch.symeig(a)
        except {caught}:
            return torch.symeig(a.double())
    """
    assert len(found("ESP511", source)) == count


@pytest.mark.parametrize(
    "made", ["LinearSystem(a)", "linear_operator.DenseLinearOperator(a)"], ids=["here", "elsewhere"]
)
def test_a_method_of_another_class_is_none_of_torch(found, made):
    source = f"import linear_operator\nimport torch\n\ndef roots(a):\n    system = {made}\n    return system.symeig()\n"
    assert found("ESP511", source) == []


def test_a_switch_to_training_right_before_an_export_is_found(found):
    source = """
    import torch

    def ship(module, x):
        net = module.net.cpu()
        net.train()
        torch.onnx.export(net, (x,), "net.onnx", dynamo=True)
    """
    assert found("ESP513", source) == ['torch.onnx.export(net, (x,), "net.onnx", dynamo=True)']


def test_an_operator_that_changes_its_input_only_under_a_test_may_return_it(found):
    source = """
    import torch
    from torch import Tensor

    @torch.library.custom_op("mine::frame", mutates_args=())
    def frame(x: Tensor, size: int) -> Tensor:
        if x.size(-1) % size:
            x = torch.nn.functional.pad(x, (0, size))
        return x.view(-1, size)
    """
    assert found("ESP507", source) == ["return x.view(-1, size)"]


@pytest.mark.parametrize(
    ("load", "count"),
    [
        ("try:\n    s = torch.load(p, weights_only=True)\nexcept TypeError:\n    s = torch.load(p)", 0),
        ("try:\n    s = torch.load(p, weights_only=True)\nexcept Exception:\n    s = torch.load(p)", 1),
    ],
)
def test_a_load_for_a_torch_without_the_argument_is_left_alone(found, load, count):
    assert len(found("ESP901", f"import torch\n\n{load}\n")) == count


@pytest.mark.parametrize(("written", "count"), [("torch.save(row, buffer)", 0), ("buffer.write(row)", 1)])
def test_bytes_that_the_class_made_itself_are_read_without_a_finding(found, written, count):
    source = f"""
    import io
    import torch

    class Rows:
        def pack(self, row):
            buffer = io.BytesIO()
            {written}
            return buffer.getvalue()

        def unpack(self, packed):
            return torch.load(io.BytesIO(packed), weights_only=False)
    """
    assert len(found("ESP901", source)) == count


@pytest.mark.parametrize(
    "body",
    [
        (
            "for x in loader:\n    scaler.scale(loss(net(x)) / 8).backward()\n    k += 1\n    if k == 8:\n"
            "        scaler.step(optimizer)\n        k = 0"
        ),
        "for x in loader:\n    for part in x.chunk(4):\n        loss(net(part)).backward()\n    optimizer.step()",
    ],
    ids=["counted by hand", "chunks"],
)
def test_further_forms_of_accumulation_are_found(found, body):
    head = "from torch.nn.parallel import DistributedDataParallel\n\ndef fit(net, loader, optimizer, scaler, k=0):\n"
    assert len(found("ESP412", f"{head}    net = DistributedDataParallel(net)\n{indent(body, '    ')}\n")) == 1


def test_a_model_moved_to_a_name_in_the_loop_is_found(found):
    source = "def run(model, loader, device):\n    for x in loader:\n        net = model.to(device)\n        net(x)\n"
    assert found("ESP402", source) == ["net = model.to(device)"]


@pytest.mark.parametrize(
    ("clip", "count"),
    [
        ("for p in model.parameters():\n    p.grad.clamp_(-1, 1)", 1),
        ("for p in model.parameters():\n    p.grad.data.clip_(-1, 1)", 1),
        ("scaler.unscale_(optimizer)\nfor p in model.parameters():\n    p.grad.clamp_(-1, 1)", 0),
        ("for p in model.parameters():\n    p.data.clamp_(-1, 1)", 0),
    ],
)
def test_gradients_clipped_by_hand_must_be_unscaled_as_well(clip, count, found):
    source = "def step(model, x, optimizer, scaler):\n    scaler.scale(model(x)).backward()\n"
    source += indent(clip, "    ") + "\n    scaler.step(optimizer)\n    scaler.update()\n"
    assert len(found("ESP503", source)) == count


@pytest.mark.parametrize(("said", "count"), [("", 1), (", preserve_rng_state=False", 1), (", use_reentrant=False", 0)])
def test_a_bound_checkpoint_says_its_variant_or_not(said, count, found):
    source = f"import functools, torch\n\nkeep = functools.partial(torch.utils.checkpoint.checkpoint{said})\n"
    assert len(found("ESP505", source)) == count


@pytest.mark.parametrize(("returned", "count"), [("x[:n]", 1), ("x[:n].clone()", 0), ("torch.relu(x)", 0)])
def test_an_operator_made_by_a_call_must_not_alias_either(returned, count, found):
    source = f"""
    import torch

    def head(x: torch.Tensor, n: int) -> torch.Tensor:
        return {returned}

    op = torch.library.custom_op("mine::head", head, mutates_args=())
    """
    assert len(found("ESP507", source)) == count


@pytest.mark.parametrize(
    ("handed", "count"),
    [
        ("[conv.weight]", 1),
        ("[linear.bias]", 1),
        ("[linear.weight]", 0),
        ("[{'params': m.body.parameters()}, {'params': m.head.parameters(), 'lr': 0.1}]", 1),
        ("[{'params': [p for p in m.parameters() if p.ndim == 2]}, {'params': [linear.weight]}]", 0),
    ],
)
def test_muon_takes_matrices_only_in_lists_and_groups_too(handed, count, found):
    source = f"""
    import torch
    from torch import nn

    def build(m):
        conv, linear = nn.Conv2d(3, 8, 3), nn.Linear(8, 8)
        return torch.optim.Muon({handed})
    """
    assert len(found("ESP508", source)) == count
