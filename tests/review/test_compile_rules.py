"""ESP501 to ESP505, and what `torch.compile` reaches over several files."""

from __future__ import annotations

import pytest

BREAKS = [
    "print(x.shape)",
    "scale = x.abs().max().item()",
    "values = x.tolist()",
    "logger.info('step')",
    "warnings.warn('odd')",
    "if x.sum() > 0: x = x + 1",
    "if torch.isnan(x).any(): x = x * 0",
    "while (x > 1).any(): x = x / 2",
    "started = time.perf_counter()",
    "x.sum().backward()",
    "torch.save(x, 'x.pt')",
]
NO_BREAKS = [
    "y = x.detach().cpu().numpy()",
    "if x.shape[0] > 1: x = x + 1",
    "if x.size(0) == x.numel(): x = x + 1",
    "if mask is not None: x = x + mask",
    "if torch.compiler.is_compiling() is False: print(x)",
    "if debug: print(x)",
    "if mask is None: warnings.warn('no mask')",
    "y = x.sum()",
    "x = torch.where(x.sum() > 0, x, -x)",
    "if max(a, b) > 3: x = x + 1",
    "if any(each for each in names): x = x + 1",
]
HEAD = "import logging\nimport time\nimport warnings\n\nimport torch\n\nlogger = logging.getLogger(__name__)\n\n"


def step(line: str, decorator: str = "@torch.compile") -> str:
    """Return a compiled function with a line in it."""
    return f"{HEAD}{decorator}\ndef step(x, mask=None, debug=False):\n    {line}\n    return x\n"


@pytest.mark.parametrize("line", BREAKS)
def test_what_ends_a_graph_is_found(found, line):
    assert found("ESP501", step(line)) == [line]


@pytest.mark.parametrize("line", NO_BREAKS)
def test_what_stays_in_the_graph_or_is_for_debugging_is_left_alone(found, line):
    assert found("ESP501", step(line)) == []


@pytest.mark.parametrize("line", BREAKS)
def test_code_that_is_not_compiled_is_left_alone(found, line):
    assert found("ESP501", step(line, decorator="@torch.no_grad()")) == []


def test_item_is_captured_under_fullgraph(found):
    line = "scale = x.abs().max().item()"
    assert found("ESP501", step(line, "@torch.compile(fullgraph=True)")) == []
    assert found("ESP501", step(line, "@torch.compile(dynamic=True)")) == [line]


MODEL = """
import torch
from torch import nn

class Block(nn.Module):
    def forward(self, x):
        if x.max() > 1:
            x = x / 2
        return x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())

    def forward(self, x):
        return clip(self.blocks(x))

    @torch.compiler.disable
    def log(self, x):
        print(x)

def clip(x):
    print(x)
    return x
"""

COMPILED = {
    "a name": "net = Net().to('cpu')\nfast = torch.compile(net)",
    "in place": "net = Net()\nnet.compile()",
    "at once": "fast = torch.compile(Net())",
    "again under the same name": "net = Net()\nnet = torch.compile(net, mode='default')",
    "an attribute": "class T:\n    def __init__(self):\n        self.net = torch.compile(Net())",
    "a parameter": "def fit(net):\n    return torch.compile(net)\n\nfit(Net())",
}


@pytest.mark.parametrize("source", COMPILED.values(), ids=COMPILED)
def test_a_compiled_model_is_followed_into_its_parts_and_helpers(found, source):
    sources = {"pkg/model.py": MODEL, "train.py": f"import torch\nfrom pkg.model import Net\n\n{source}\n"}
    assert found("ESP501", sources) == ["if x.max() > 1:", "print(x)"]


def test_a_model_that_is_not_compiled_is_left_alone(found):
    assert found("ESP501", {"model.py": MODEL, "train.py": "import re\nre.compile('x')\n"}) == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("from torch.cuda.amp import autocast, GradScaler\ns = GradScaler()\nwith autocast():\n    pass\n", 2),
        ("import torch\nwith torch.cuda.amp.autocast():\n    pass\n", 1),
        ("import torch\nwith torch.amp.autocast('cuda'):\n    pass\n", 0),
        ("import torch\nwith torch.autocast('cuda'):\n    pass\n", 0),
        ("import torch\ntry:\n    torch.amp.GradScaler()\nexcept AttributeError:\n    torch.cuda.amp.GradScaler()", 0),
    ],
)
def test_old_names_of_mixed_precision_are_found(found, source, count):
    assert len(found("ESP502", source)) == count


CLIP = """
import torch

def step(model, x, optimizer, scaler):
    scaler.scale(model(x)).backward()
    {before}
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    {after}
"""


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        ("pass", "scaler.step(optimizer)", 1),
        ("scaler.unscale_(optimizer)", "scaler.step(optimizer)", 0),
        ("pass", "optimizer.step()", 0),
    ],
)
def test_clipping_before_unscaling_is_found(found, before, after, count):
    assert len(found("ESP503", CLIP.format(before=before, after=after))) == count


def test_clipping_without_a_scaler_is_left_alone(found):
    unscaled = CLIP.replace("scaler.scale(model(x))", "model(x)")
    assert found("ESP503", unscaled.format(before="pass", after="scaler.step(optimizer)")) == []


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("for x in loader:\n    f = torch.compile(model)\n", 1),
        ("while True:\n    f = torch.compile(step, mode='max-autotune')\n", 1),
        ("for mode in modes:\n    f = torch.compile(model, mode=mode)\n", 0),
        ("for i, layer in enumerate(layers):\n    layers[i] = torch.compile(layer)\n", 0),
        ("for x in loader:\n    net = make(x)\n    f = torch.compile(net)\n", 0),
        ("for x in loader:\n    if first:\n        f = torch.compile(model)\n", 0),
        ("f = torch.compile(model)\n", 0),
    ],
)
def test_compiling_the_same_thing_in_a_loop_is_found(found, body, count):
    assert len(found("ESP504", f"import torch\n\n{body}")) == count


@pytest.mark.parametrize(
    ("call", "count"),
    [
        ("checkpoint(f, x)", 1),
        ("checkpoint(f, x, use_reentrant=False)", 0),
        ("checkpoint(f, x, use_reentrant=True)", 0),
        ("checkpoint(f, x, **options)", 0),
        ("functools.partial(checkpoint, use_reentrant=False)", 0),
    ],
)
def test_a_checkpoint_that_leaves_its_variant_open_is_found(found, call, count):
    assert len(found("ESP505", f"from torch.utils.checkpoint import checkpoint\ny = {call}\n")) == count
