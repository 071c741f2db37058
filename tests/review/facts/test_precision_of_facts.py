"""Code of real packages that only looks like a fault of ranks, precision, order or export."""

from __future__ import annotations

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources


def facts(query, topic, source):
    done = inspect_sources({"net.py": source}, InspectionSubject((topic,)), names=[query])
    assert not done.results[0].problem
    return {(fact.line, fact.assessment): fact for fact in done.results[0].facts}


CLOSURE = """\
import torch.distributed as dist


def fit(model, loader, optimizer):
    dist.init_process_group("nccl")
    for x in loader:
        def closure():
            loss = model(x).mean()
            loss.backward()
            return loss

        optimizer.step(closure)
        if dist.get_rank() == 0:
            print(closure())
"""


def test_a_closure_that_an_optimizer_gets_runs_on_all_ranks():
    told = facts("rank-collectives", "distributed training", CLOSURE)
    assert not [key for key in told if key[1] is Assessment.MUST_CHANGE]
    alone = CLOSURE.replace("        optimizer.step(closure)\n", "        optimizer.step()\n")
    assert (9, Assessment.MUST_CHANGE) in facts("rank-collectives", "distributed training", alone)


def test_the_fix_of_a_large_constant_has_its_sign():
    source = "def low(x, mask):\n    return x.masked_fill(mask, 1e30).amin(), x.masked_fill(mask, -1e30).amax()\n"
    done = inspect_sources({"net.py": source}, InspectionSubject(("mixed precision",)), names=["half-values"])
    remedies = {fact.remedy for fact in done.results[0].facts}
    assert remedies == {"write `torch.finfo(x.dtype).max`", "write `torch.finfo(x.dtype).min`"}


def test_a_new_tensor_without_a_dtype_is_not_float16():
    source = (
        "import torch\n\n\ndef first(n, device):\n    r = torch.full((n,), 0.0, device=device)\n    r.fill_(-1e20)\n"
    )
    assert facts("half-values", "mixed precision", source) == {}
    typed = source.replace("device=device)", "device=device, dtype=torch.float16)")
    assert (6, Assessment.SHOULD_CHECK) in facts("half-values", "mixed precision", typed)


def test_a_floor_in_an_arm_of_a_choice_guards_what_is_chosen():
    source = (
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
        "        return torch.where(x > 0, x.clamp_min(1e-12), torch.ones_like(x)).sqrt()\n"
    )
    assert facts("half-values", "mixed precision", source) == {}
    plain = source.replace("torch.where(x > 0, x.clamp_min(1e-12), torch.ones_like(x))", "x.clamp_min(1e-12)")
    assert (7, Assessment.SHOULD_CHECK) in facts("half-values", "mixed precision", plain)


SCRIPTED = """\
import torch
from torch import nn


@torch.jit.script_if_tracing
def crop(x):
    if x.sum() > 0:
        return x[:1]
    return x


class Net(nn.Module):
    def forward(self, x):
        return crop(x)
"""


def test_a_function_that_a_trace_scripts_keeps_its_branches():
    told = facts("export-blockers", "export", SCRIPTED)
    assert [key for key in told if key[1] in {Assessment.MUST_CHANGE, Assessment.SHOULD_CHECK}] == []
    assert "TorchScript keeps its branches, `torch.export` does not" in told[6, Assessment.OPEN].text
    plain = facts("export-blockers", "export", SCRIPTED.replace("@torch.jit.script_if_tracing\n", ""))
    assert any(key[1] is Assessment.SHOULD_CHECK for key in plain)


def test_a_module_that_takes_no_tensor_is_not_exported():
    source = (
        "from torch import nn\n\n\nclass Draw(nn.Module):\n    def forward(self, shape: tuple[int, ...], same: bool):\n"
        "        return {'angle': shape[0]}\n"
    )
    assert facts("export-blockers", "export", source) == {}
    taking = source.replace("shape: tuple[int, ...]", "shape: 'torch.Tensor'")
    assert (6, Assessment.SHOULD_CHECK) in facts("export-blockers", "export", taking)


def test_a_set_that_training_does_not_reach_or_that_is_sorted_is_not_told():
    source = "def names(rows):\n    found = list(set(rows))\n    return found\n"
    assert facts("unordered-data", "reproducibility", source) == {}
    data = (
        "from torch.utils.data import Dataset\n\n\nclass Rows(Dataset):\n    def __init__(self, rows):\n"
        "        self.names = list(set(rows))\n"
    )
    assert (6, Assessment.SHOULD_CHECK) in facts("unordered-data", "reproducibility", data)
    assert facts("unordered-data", "reproducibility", f"{data}        self.names.sort()\n") == {}
