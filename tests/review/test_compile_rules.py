"""ESP501 to ESP506, and what `torch.compile` reaches over several files."""

from __future__ import annotations

import pytest

from esper_agents.domain.finding import Severity
from esper_agents.review.engine import review_sources

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
    "scale = float(x.sum())",
    "kept = torch.nonzero(x)",
    "kept = x.masked_select(mask)",
    "assert not torch.isnan(x).any()",
    "if x.sum().item() > 0: x = x + 1",
    "started = time.process_time()",
    "seed = random.random()",
    "grads = torch.autograd.grad(x.sum(), x)",
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
    "assert torch.isfinite(x).all()",
    "size = int(x.shape[0])",
    "scale = float(debug)",
    "pick = random.randint(0, 3)",
    "torch.cuda.empty_cache()",
    "names = table.unique()",
    "try: x = x + 1\n    except ValueError: x = x * 2",
]
HEAD = (
    "import logging\nimport random\nimport time\nimport warnings\n\nimport torch\n\n"
    "logger = logging.getLogger(__name__)\n\n"
)


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
    "a container": "net = torch.nn.Sequential(*[Net() for _ in range(2)]).to('cpu')\nnet.compile()",
    "a container, by name": "net = torch.nn.Sequential(Net(), torch.nn.ReLU())\nfast = torch.compile(net)",
    "a parameter": "def fit(net):\n    return torch.compile(net)\n\nfit(Net())",
}


@pytest.mark.parametrize("source", COMPILED.values(), ids=COMPILED)
def test_a_compiled_model_is_followed_into_its_parts_and_helpers(found, source):
    sources = {"pkg/model.py": MODEL, "train.py": f"import torch\nfrom pkg.model import Net\n\n{source}\n"}
    assert found("ESP501", sources) == ["if x.max() > 1:", "print(x)"]


def test_a_model_that_is_not_compiled_is_left_alone(found):
    assert found("ESP501", {"model.py": MODEL, "train.py": "import re\nre.compile('x')\n"}) == []


@pytest.mark.parametrize("line", ["kept = torch.nonzero(x)", "scale = float(x.sum())"])
def test_what_fullgraph_captures_is_left_alone(found, line):
    assert found("ESP501", step(line, "@torch.compile(fullgraph=True)")) == []
    assert found("ESP501", f"torch._dynamo.config.capture_scalar_outputs = True\n{step(line)}") == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("from torch.cuda.amp import custom_fwd\n\n@custom_fwd\ndef forward(ctx, x):\n    return x\n", 1),
        ("from torch.cuda.amp import custom_bwd\n\n@custom_bwd()\ndef backward(ctx, g):\n    return g\n", 1),
        ("import torch\n\n@torch.amp.custom_fwd(device_type='cuda')\ndef forward(ctx, x):\n    return x\n", 0),
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
        ("for x in loader:\n    votes = [torch.compile(m)(x) for m in members]\n", 1),
        ("for net in nets:\n    votes = [torch.compile(m)(x) for m in net.members]\n", 0),
        ("for x in loader:\n    @torch.compile\n    def f(y):\n        return net(y)\n", 1),
        ("for x in loader:\n    @torch.compile\n    def f(y):\n        return x + y\n", 0),
        ("f = torch.compile(model)\n", 0),
    ],
)
def test_compiling_the_same_thing_in_a_loop_is_found(found, body, count):
    assert len(found("ESP504", f"import torch\n\n{body}")) == count


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("fast = torch.compile(self.net)", 1),
        ("return torch.compile(self.net)(x)", 1),
        ("self.fast = torch.compile(self.net)", 0),
        ("if self.fast is None: self.fast = torch.compile(self.net)", 0),
        ("fast = self.fast", 0),
    ],
)
def test_compiling_in_every_call_of_a_forward_is_found(found, line, count):
    source = f"import torch\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        {line}\n"
    assert len(found("ESP504", source)) == count
    assert found("ESP504", source.replace("def forward", "def __init__")) == []


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


SEVERAL = """
import torch

def step(make, take, x, scaler):
    first, second = torch.optim.Adam(make.parameters()), None
    optimizer_m = torch.optim.Adam(make.parameters())
    optimizer_t = torch.optim.Adam(take.parameters())
    scaler.scale(take(make(x)).mean()).backward()
    {before}
    torch.nn.utils.clip_grad_norm_(take.parameters(), 1.0)
    scaler.step(optimizer_m)
    scaler.step(optimizer_t)
"""


@pytest.mark.parametrize(
    ("before", "count"),
    [
        ("scaler.unscale_(optimizer_m)", 1),
        ("scaler.unscale_(optimizer_t)", 0),
        ("scaler.unscale_(optimizer_m); scaler.unscale_(optimizer_t)", 0),
        ("pass", 1),
    ],
)
def test_of_several_optimizers_the_one_that_is_clipped_must_be_unscaled(found, before, count):
    assert len(found("ESP503", SEVERAL.format(before=before))) == count


def test_clipping_after_a_backward_in_a_helper_is_found(found):
    source = """
    import torch

    class Trainer:
        def back(self, loss):
            self.scaler.scale(loss).backward()

        def step(self, x):
            self.back(self.model(x))
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.scaler.step(self.optimizer)
    """
    clipping = "torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)"
    assert found("ESP503", source) == [clipping]
    assert found("ESP503", source.replace("self.back(", "self.scaler.unscale_(o); self.back(")) == []


def test_clipping_after_the_step_is_a_warning():
    late = CLIP.format(before="scaler.step(optimizer)", after="scaler.update()")
    assert [
        (claim.severity, claim.excerpt.strip()) for claim in review_sources({"train.py": late}, rules=["ESP503"]).claims
    ] == [(Severity.WARNING, "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)")]


KEPT = """
import torch
from torch import nn

CALLS = 0

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.steps = 0
        self.kept = []
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x, log=False):
        {line}
        return self.layer(x)

net = torch.compile(Net())
"""


@pytest.mark.parametrize(
    "line",
    [
        "self.steps += 1",
        "self.steps = self.steps + 1",
        "self.steps += x.shape[0]",
        "self.kept.append(x.detach())",
        "global CALLS; CALLS += 1",
    ],
)
def test_what_compiled_code_counts_or_gathers_is_found(found, line):
    assert found("ESP506", KEPT.format(line=line)) == [line]


@pytest.mark.parametrize(
    "line",
    [
        "self.count += 1",
        "steps = 0; steps += 1",
        "if log: self.steps += 1",
        "self.kept = [x]; self.kept.append(x)",
        "kept = []; kept.append(x)",
        "self.scale = x.mean()",
    ],
)
def test_what_does_not_recompile_is_left_alone(found, line):
    assert found("ESP506", KEPT.format(line=line)) == []


def test_a_counter_of_a_module_that_is_not_compiled_is_left_alone(found):
    source = KEPT.format(line="self.steps += 1")
    assert found("ESP506", source.replace("torch.compile(Net())", "Net()")) == []
    assert found("ESP506", f"torch._dynamo.config.allow_unspec_int_on_nn_module = True\n{source}") == []


LOOP = """
import torch

{decorator}
def step(x, n, seen=None):
    {body}
    return x

def train(loader):
    seen = []
    for i, x in enumerate(loader):
        seen.append(x)
        {call}
"""


@pytest.mark.parametrize(
    ("decorator", "body", "call", "count"),
    [
        ("@torch.compile(dynamic=False)", "x = x * n", "step(x, i)", 1),
        ("@torch.compile(dynamic=False)", "x = x * n", "step(x, n=i)", 1),
        ("@torch.compile", "x = x * n", "step(x, i)", 0),
        ("@torch.compile", "x = sum(x for _ in range(3))", "step(x, i)", 0),
        ("@torch.compile", "for _ in range(n): x = x + 1", "step(x, i)", 1),
        ("@torch.compile", "for _ in range(n): x = x + 1", "step(x, 3)", 0),
        ("@torch.compile", "x = x + len(seen)", "step(x, 1, seen)", 1),
        ("@torch.compile", "x = x + 1", "step(x, 1, [x])", 0),
        ("@torch.no_grad()", "for _ in range(n): x = x + 1", "step(x, i, seen)", 0),
        ("@torch.compile(dynamic=False)", "x = x * n", "if i % 100 == 0: step(x, i)", 0),
    ],
)
def test_arguments_that_compile_anew_in_every_round_are_found(found, decorator, body, call, count):
    assert len(found("ESP506", LOOP.format(decorator=decorator, body=body, call=call))) == count


def test_a_function_that_was_compiled_by_name_is_followed(found):
    source = LOOP.format(decorator="", body="for _ in range(n): x = x + 1", call="fast(x, i)")
    assert found("ESP506", source.replace("def train", "fast = torch.compile(step)\n\ndef train")) == ["fast(x, i)"]
