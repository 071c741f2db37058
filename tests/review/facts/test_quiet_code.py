"""Tests of what fact queries do not say: code that looks like a fault and is none."""

from __future__ import annotations

import pytest

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources

FALLBACK = """\
import torch


class Momentum(torch.optim.Optimizer):
    def step(self):
        for group in self.param_groups:
            if group["foreach"]:
                torch._foreach_mul_(group["params"], 0.99)
                continue
            for p in group["params"]:
                m = self.state[p]
                m.mul_(0.9).add_(p.grad)
                p.mul_(0.99).add_(m)
"""
EXAMPLE = """\
import torch


def build(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


if __name__ == "__main__":
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in [torch.zeros(2)] * 3:
        model(x).sum().backward()
        optimizer.step()
"""
POLICY = """\
def update(memory, policy, optimizer):
    for states, returns in memory.sample_all(4):
        optimizer.zero_grad()
        loss = (policy(states) - returns).pow(2).mean()
        loss.backward()
        optimizer.step()
"""
ARGUMENTS = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x, *args, **kwargs):
        return self.inner(x, *args, **kwargs)
"""
SCHEDULE = """\
import torch
from torch import nn


class Diffusion(nn.Module):
    def __init__(self, variance):
        super().__init__()
        self.register_buffer("log", torch.log(variance.clamp(min=1e-20)))
"""
COUNTED = "def check(names):\n    found = list(set(names))\n    return len(found) == 1\n"
LIBRARY = "import random\n\n\ndef jitter(x):\n    return x + random.random()\n"
TEMPORARY = """\
import tempfile

import torch


def fit(model, loader, optimizer):
    for x in loader:
        model(x).backward()
        optimizer.step()
    torch.save(model.state_dict(), tempfile.NamedTemporaryFile().name)
"""
WARP = """\
import warp as wp


def fit(model, loader, optimizer):
    for x in loader:
        with wp.Tape() as tape:
            loss = model(x)
        tape.backward(loss)
        optimizer.step(x.grad)
        tape.zero()
"""
IN_FLOAT32 = """\
import torch
from torch import nn


class Dice(nn.Module):
    def forward(self, x, y):
        total = (x + y).sum(0, dtype=torch.float32)
        return (x * y).sum(0) / total.clamp_min(1e-8)
"""
DIVIDED_LATER = """\
import torch


def update(self, scaler, loss, optimizer):
    scaler.scale(loss).backward()
    scaler.step(optimizer)


def finish(scaler):
    scaler.update()


scaler = torch.amp.GradScaler("cuda")
"""
FALLBACK_TO_ONE_PROCESS = """\
import torch
from torch.nn.parallel import DataParallel, DistributedDataParallel


def wrap(net, opt, loader, optimizer):
    if opt["dist"]:
        net = DistributedDataParallel(net)
    elif opt["num_gpu"] > 1:
        net = DataParallel(net)
    for x in loader:
        net(x).backward()
        optimizer.step()
"""
UNWRAPPED = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x)

    def report(self):
        return 1


def fit(loader):
    dist.init_process_group("nccl")
    model = Net()
    model = DistributedDataParallel(model)
    model = model.module
    model.report()
"""
BEST = """\
import torch


class Trainer:
    def __init__(self):
        self.best_model = None

    def keep(self, score):
        self.best_model = max(score, self.best_model)
        torch.save({"best": self.best_model}, "a.pt")
"""
VERSIONS = """\
import torch

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
IS_NEW = VERSION >= (2, 6)


def read(path):
    if IS_NEW:
        return torch.load(path, weights_only=True)
    return torch.load(path) if not IS_NEW else None


def read_old(path):
    if not IS_NEW:
        return torch.load(path)
"""
PLANS = """\
import numpy as np
import torch


def loss_size(spacing):
    return [round(i) for i in spacing * (2048**2 / np.prod(spacing)) ** (1 / 2)]
"""
ERRORS = """\
class NegativeRateError(ValueError):
    def __init__(self, rate):
        text = str(rate)
        super().__init__(text)
"""


@pytest.mark.parametrize(
    ("query", "topic", "source", "stated"),
    [
        ("parameter-updates", "speed", FALLBACK, ()),
        ("wrapped-model", "distributed training", EXAMPLE, (Assessment.SHOULD_CHECK,)),
        ("gradient-accumulation", "gradient accumulation", POLICY, ()),
        ("export-blockers", "export", ARGUMENTS, ()),
        ("half-values", "mixed precision", SCHEDULE, ()),
        ("unordered-data", "reproducibility", COUNTED, ()),
        ("random-sources", "reproducibility", LIBRARY, (Assessment.SHOULD_CHECK,)),
        ("rank-output", "distributed training", TEMPORARY, ()),
        ("test-cases", "tests", ERRORS, ()),
        ("gradient-accumulation", "gradient accumulation", WARP, ()),
        ("half-values", "mixed precision", IN_FLOAT32, ()),
        ("loss-scaling", "mixed precision", DIVIDED_LATER, ()),
        ("rank-devices", "distributed training", FALLBACK_TO_ONE_PROCESS, ()),
        ("wrapped-model", "distributed training", UNWRAPPED, ()),
        ("version-upgrade", "upgrade", BEST, ()),
        ("nonfinite-values", "NaN or Inf", PLANS, ()),
    ],
)
def test_code_that_only_looks_like_a_fault_is_not_reported(query, topic, source, stated):
    done = inspect_sources({"net.py": source}, InspectionSubject((topic,)), names=[query])
    weighty = {Assessment.MUST_CHANGE, Assessment.SHOULD_CHECK}
    assert tuple(fact.assessment for fact in done.results[0].facts if fact.assessment in weighty) == stated


@pytest.mark.parametrize(
    "body",
    [
        "return x[self.valid_mask].sum()",
        "return x[x > 0].sum()",
        "x.requires_grad = True\n        return x",
        "return torch.sparse_coo_tensor(x, x)",
    ],
)
def test_code_that_breaks_the_graph_by_its_data_is_not_called_ready(body):
    source = f"import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        {body}\n"
    done = inspect_sources({"net.py": source}, InspectionSubject(("torch.compile",)), names=["compile-readiness"])
    assert [fact.assessment for fact in done.results[0].facts] == [Assessment.OPEN]


def test_whether_one_rank_writes_is_open_where_only_its_caller_can_know():
    source = TEMPORARY.replace("tempfile.NamedTemporaryFile().name", "'model.pt'").replace(
        "    torch.save", "    if not is_wrapped(model):\n        return\n    torch.save"
    )
    done = inspect_sources({"net.py": source}, InspectionSubject(("distributed training",)), names=["rank-output"])
    assert Assessment.FINE not in {fact.assessment for fact in done.results[0].facts}


MEMORY = """\
import torch
from torch import nn


class Memory(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.register_buffer("rows", torch.zeros(size, 2))
        self.register_buffer("is_ready", torch.tensor(False))
        self.at = 0
        self.is_full = False
        self.log = None

    def forward(self, x):
        if self.is_ready:
            self.rows[self.at] = x
        self.at = (self.at + 1) % self.size
        if not self.is_full and self.at == 0:
            self.is_full = True
        self.log = x
        return self.rows
"""


def facts(source, topic, query):
    done = inspect_sources({"net.py": source}, InspectionSubject((topic,)), names=[query])
    return [(fact.assessment, fact.line) for fact in done.results[0].facts]


def test_numbers_and_flags_beside_buffers_are_not_saved():
    should = Assessment.SHOULD_CHECK
    assert facts(MEMORY, "checkpoints", "unsaved-state") == [(should, 18), (should, 20)]
    own = MEMORY + "\n    def get_extra_state(self):\n        return self.at\n"
    assert facts(own, "checkpoints", "unsaved-state") == []


def test_a_branch_on_a_buffer_waits_for_the_device():
    assert (Assessment.SHOULD_CHECK, 16) in facts(MEMORY, "speed", "step-costs")
    assert (Assessment.OPEN, 16) in facts(MEMORY, "torch.compile", "compile-readiness")


def test_a_collective_whose_result_is_discarded_does_nothing():
    source = (
        "import torch.distributed.nn as dist_nn\n\n\ndef mean(t, n):\n    dist_nn.all_reduce(t)\n"
        "    t = dist_nn.all_reduce(t)\n    return t / n\n"
    )
    assert facts(source, "distributed training", "rank-collectives") == [(Assessment.MUST_CHANGE, 5)]


def test_a_load_for_old_versions_is_neither_changed_by_an_upgrade_nor_a_fault():
    assert (Assessment.SHOULD_CHECK, 15) not in facts(VERSIONS, "upgrade", "version-upgrade")
    assert (Assessment.OPEN, 15) in facts(VERSIONS, "security", "checkpoint-loads")


ROOTS = """\
import torch


def loss(x, y, eps):
    {}
    return torch.where(y > 0, x / y, 1.0)
"""


@pytest.mark.parametrize(
    ("line", "is_guarded"),
    [
        ("y.add_(eps)", True),
        ("y = y.abs().add(1e-6)", True),
        ("y += eps", True),
        ("torch._foreach_add_([y], eps)", False),
        ("y.clamp_(min=1e-6)", True),
        ("y.clamp_(min=0)", False),
        ("y.add_(x)", False),
        ("pass", False),
    ],
)
def test_a_small_number_that_is_added_in_place_guards_a_divisor(line, is_guarded):
    stated = {each for each, _ in facts(ROOTS.format(line), "NaN or Inf", "nonfinite-values")}
    assert (Assessment.SHOULD_CHECK in stated) is not is_guarded


def test_a_small_number_that_is_added_to_a_list_guards_what_a_loop_draws_from_it():
    source = (
        "import torch\n\n\ndef step(grads, roots, eps):\n    torch._foreach_add_(roots, eps)\n"
        "    for g, r in zip(grads, roots):\n        g.copy_(torch.where(r > 0, g / r, g))\n"
    )
    assert facts(source, "NaN or Inf", "nonfinite-values") == []
    bare = source.replace("    torch._foreach_add_(roots, eps)\n", "")
    assert facts(bare, "NaN or Inf", "nonfinite-values") == [(Assessment.SHOULD_CHECK, 6)]


EVERY = """\
import torch


def fit(model, loader, optimizer, write_interval):
    model.cuda()
    for step, x in enumerate(loader):
        loss = model(x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if {}:
            print(loss.item())
"""


@pytest.mark.parametrize(
    ("test", "is_rare"),
    [
        ("write_interval > 0", False),
        ("write_interval is not None", False),
        ("write_interval", False),
        ("write_interval > 0 and step % write_interval == 0", True),
        ("step - start > write_interval", True),
        ("step == 0", True),
    ],
)
def test_a_test_whether_an_interval_is_set_picks_no_steps(test, is_rare):
    stated = facts(EVERY.format(test), "speed", "step-costs")
    assert ((Assessment.FINE, 12) in stated) is is_rare


KEPT = """\
import torch


def fit(model, loader, optimizer, is_twice):
    for epoch in range(9):
        outputs = []
        for x in loader:
            optimizer.zero_grad()
            loss = model(x)
            if is_twice:
                loss.backward(retain_graph=True)
            else:
                loss.backward()
            optimizer.step()
            outputs.append(x)
"""


def test_a_list_of_each_epoch_does_not_grow_and_a_backward_in_the_other_arm_needs_no_graph():
    stated = facts(KEPT, "memory growth", "kept-memory")
    assert (Assessment.FINE, 15) in stated
    assert (Assessment.SHOULD_CHECK, 11) in stated


PARTS = """\
import numpy as np
import torch
from torch import nn


class Part(nn.Module):
    def forward(self, x):
        return x.relu()


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()

    def forward(self, x):
        return self.part(x)


class Given(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


class Counting(nn.Module):
    def forward(self, x):
        size = np.prod(x.shape)
        return x[: int(size / 2)]


class WholeLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(1, 1)

    def forward(self, x):
        return self.scale(x)


class Activation(nn.Module):
    def forward(self, x):
        return x.relu()
"""


def test_compilation_begins_with_a_whole_whose_calls_are_known():
    stated = facts(PARTS, "torch.compile", "compile-readiness")
    assert [line for assessment, line in stated if assessment is Assessment.FINE] == [16]
    assert (Assessment.OPEN, 32) in stated


def test_a_branch_that_settings_may_decide_first_is_told_with_that():
    source = (
        "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
        "        if self.limit is not None and x.max() > 1:\n            x = x / 2\n        return x\n"
    )
    for query, topic in (("step-costs", "speed"), ("compile-readiness", "torch.compile")):
        done = inspect_sources({"net.py": source}, InspectionSubject((topic,)), names=[query])
        assert "unless `self.limit is not None` decides first" in done.results[0].facts[0].text
    asked = InspectionSubject(("export",), symbols=("net.py:Net",))
    done = inspect_sources({"net.py": source}, asked, names=["export-blockers"])
    assert done.results[0].facts[0].assessment is Assessment.SHOULD_CHECK


LAYERS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, given):
        super().__init__()
        self.layers = nn.ModuleList({})
        self.layers.append({})

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


@pytest.mark.parametrize(
    ("made", "added", "count"),
    [
        ("", "nn.Linear(2, 2)", 0),
        ("given", "given[0]", 0),
        ("", "nn.Sequential(nn.Linear(2, 2), nn.ReLU())", 1),
        ("Block() for _ in range(9)", "Block()", 1),
    ],
)
def test_a_checkpoint_is_advised_only_for_blocks_of_several_layers(made, added, count):
    stated = facts(LAYERS.format(made, added), "memory", "kept-memory")
    assert len([each for each, _ in stated if each is Assessment.SHOULD_CHECK]) == count


def test_a_loop_over_a_list_that_the_code_makes_is_not_fixed_by_the_example():
    source = (
        "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        parts = [x]\n"
        "        parts.insert(0, x / 2)\n        for level in range(len(parts)):\n            x = x + parts[level]\n"
        "        return x\n"
    )
    assert (Assessment.SHOULD_CHECK, 8) not in facts(source, "export", "export-blockers")
    sized = source.replace("len(parts)", "x.shape[0]")
    assert (Assessment.SHOULD_CHECK, 8) in facts(sized, "export", "export-blockers")


def test_a_generator_that_only_stands_in_for_one_that_is_not_given_need_not_change():
    source = (
        "import numpy as np\n\n\ndef main(rng=None):\n    if rng is None:\n        rng = np.random.default_rng()\n"
        "    return rng.random()\n\n\nif __name__ == '__main__':\n    main()\n"
    )
    assert facts(source, "reproducibility", "random-sources") == [(Assessment.SHOULD_CHECK, 6)]
    always = source.replace("    if rng is None:\n        rng", "    rng")
    assert facts(always, "reproducibility", "random-sources") == [(Assessment.MUST_CHANGE, 5)]


def test_a_name_that_one_expression_chooses_by_the_version_is_left_alone():
    source = (
        "import torch\n\nIS_OLD = torch.__version__ < '2.4'\n"
        "scaler = torch.cuda.amp.GradScaler() if IS_OLD else torch.amp.GradScaler('cuda')\n"
    )
    assert facts(source, "upgrade", "version-upgrade") == []


@pytest.mark.parametrize(
    ("line", "query", "topic"),
    [
        ("return torch.acos(x)", "nonfinite-values", "NaN or Inf"),
        ("return x / x.norm()", "nonfinite-values", "NaN or Inf"),
        ("return x.half() / (x.sum() + 1e-8)", "half-values", "mixed precision"),
    ],
)
def test_a_floor_that_is_advised_can_be_represented_in_every_dtype(line, query, topic):
    source = f"import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        {line}\n"
    done = inspect_sources({"net.py": source}, InspectionSubject((topic,)), names=[query])
    remedies = [fact.remedy for fact in done.results[0].facts if fact.remedy]
    assert remedies
    assert all("torch.finfo(x.dtype).eps" in remedy for remedy in remedies)


def test_a_load_with_a_pickle_module_executes_code_in_every_version():
    source = "import pickle\nimport torch\n\nstate = torch.load('a.pt', pickle_module=pickle)\n"
    assert facts(source, "upgrade", "version-upgrade") == []
    assert facts(source, "security", "checkpoint-loads") == [(Assessment.MUST_CHANGE, 4)]
    plain = source.replace(", pickle_module=pickle", "")
    assert facts(plain, "security", "checkpoint-loads") == [(Assessment.SHOULD_CHECK, 4)]
