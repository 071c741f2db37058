"""Both versions of what a change edits, run on the same inputs."""

from __future__ import annotations

import pytest
from torch_toys import anyio_backend, needs_torch  # noqa: F401 - fixtures

from esper_agents.domain.finding import Severity
from esper_agents.tools.lab_pool import LabPool
from esper_agents.tools.registry import load_tools
from esper_agents.tools.tool import ToolContext

pytestmark = [pytest.mark.anyio, needs_torch]

OLD = """\
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.gain = nn.Parameter(torch.randn(width))

    def forward(self, x):
        scale = x.pow(2).mean(-1, keepdim=True).add(1e-6).rsqrt()
        return x * scale * self.gain


class Head(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.fc = nn.Linear(width, 4)

    def forward(self, x):
        return self.rare(self.fc(x)) if x.shape[0] == 77 else self.fc(x)

    def rare(self, hidden_states):
        for each in hidden_states.nothing:
            hidden_states = each
        return hidden_states


def masked(x, by=2.0):
    y = x * by
    return y.clamp(min=0)


def total(x):
    return x.sum(dim=-1)
"""
NEW = (
    OLD.replace("return x * scale * self.gain", "normed = x * scale\n        return normed * self.gain")
    .replace("y = x * by\n    return y.clamp(min=0)", "x *= by\n    return x.clamp(min=0)")
    .replace("def total(x):\n    return x.sum(dim=-1)", "def total(x):\n    return x.sum(dim=0)")
    .replace("hidden_states = each", "hidden_states = each + 1")
)


@pytest.fixture
async def versions(make_project):
    root = make_project({"ops.py": OLD})
    (root / "ops.py").write_text(NEW, encoding="utf-8")
    pool = LabPool(root)
    tool = load_tools().get("torch-versions")

    async def run(**more):
        arguments = {"paths": ["ops.py"], "since": "HEAD", "seconds": 60, **more}
        return await tool.run(ToolContext(root, bench=pool), arguments)

    yield run
    await pool.close()


async def test_each_definition_has_the_result_of_its_own_run(versions):
    found = await versions(claims_same=True)
    by_name = {each["target"].partition(":")[2]: each for each in found.output["comparisons"]}
    assert {name: each["outcome"] for name, each in by_name.items()} == {
        "Norm": "same",
        "Head.rare": "not compared",
        "masked": "differs",
        "total": "differs",
    }
    assert by_name["Norm"]["inputs"] > 10
    assert "changes its inputs" in " ".join(by_name["masked"]["differences"])
    assert found.output["synthetic"] is True
    lines = {each.location.line: each for each in found.claims}
    assert {NEW.splitlines()[line - 1].strip() for line in lines} == {"x *= by", "return x.sum(dim=0)"}
    assert {each.severity for each in lines.values()} == {Severity.CRITICAL}
    command = "esper submit 'is this refactor harmless?' ops.py --diff=HEAD"
    assert command in {each.remedy.rpartition("To see it: ")[2] for each in found.claims}


async def test_a_change_that_claims_nothing_gets_a_warning(versions):
    found = await versions()
    assert {each.severity for each in found.claims} == {Severity.WARNING}


TOTAL = OLD.partition("class Norm")[0] + OLD[OLD.index("def total") :]
IDENTITY = """\
import torch


def make():
    return lambda x: x


def get_inputs():
    return (torch.randn(4, 8),), {}
"""


@pytest.fixture
def run_change(make_project):
    """Return what runs both versions of a change, given as files before it and those that it writes."""

    async def run(before, after):
        root = make_project(before)
        for path, text in after.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        pool = LabPool(root)
        arguments = {"paths": [each for each in after if not each.startswith(".")], "since": "HEAD", "seconds": 60}
        try:
            found = await load_tools().get("torch-versions").run(ToolContext(root, bench=pool), arguments)
        finally:
            await pool.close()
        return root, found

    return run


@pytest.mark.parametrize("is_in_base", [False, True])
async def test_a_harness_of_the_repository_is_not_believed(run_change, is_in_base):
    harness = {".esper/harness/ops_total.py": IDENTITY}
    before = {"ops.py": TOTAL, **(harness if is_in_base else {})}
    root, found = await run_change(before, {"ops.py": TOTAL.replace("dim=-1", "dim=0"), **harness})
    (compared,) = found.output["comparisons"]
    assert compared["outcome"] == "differs"
    assert found.output["synthetic"] is True
    assert str(root.parent) not in str(found.output["comparisons"])
    assert [each.name for each in (root / ".esper/harness").iterdir()] == ["ops_total.py"]


SCALE = """import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.factor = torch.full((width,), 1.0)

    def forward(self, x):
        return x * self.factor
"""


async def test_files_whose_names_look_alike_are_run_by_themselves(run_change):
    before = {"a/b.py": SCALE, "a/__init__.py": "", "a_b.py": SCALE}
    after = {"a/b.py": SCALE.replace("1.0", "2.0 - 1.0"), "a_b.py": SCALE.replace("1.0", "3.0")}
    root, found = await run_change(before, after)
    outcomes = {each["target"]: each["outcome"] for each in found.output["comparisons"]}
    assert outcomes == {"a/b.py:Scale": "same", "a_b.py:Scale": "differs"}
    assert not (root / ".esper").exists()


async def test_edited_lines_of_a_constructor_have_to_run(run_change):
    text = SCALE.replace(
        "super().__init__()", "super().__init__()\n        if width == 77:\n            self.unused = 0"
    )
    changed = text.replace("self.unused = 0", "self.unused = 1")
    _, found = await run_change({"m.py": text}, {"m.py": changed})
    (compared,) = found.output["comparisons"]
    assert compared["outcome"] == "not compared"
    assert "executes none of the changed lines of the old version" in compared["problem"]


async def test_inputs_are_called_synthetic_only_if_the_program_chose_them(run_change):
    text = "import torch\n\n\ndef ones():\n    return torch.ones(3)\n"
    _, found = await run_change({"m.py": text}, {"m.py": text.replace("torch.ones(3)", "torch.ones(1, 3)[0]")})
    assert "does the same" in found.summary
    assert "synthetic" not in found.summary
    assert "synthetic" not in found.output


OPTIMIZER = """\
import torch
from torch.optim import Optimizer


class Plain(Optimizer):
    def __init__(self, params, lr=0.1, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad
                if group["weight_decay"] != 0:
                    grad = grad.add(p, alpha=group["weight_decay"])
                p.add_(grad, alpha=-group["lr"])
"""


@pytest.mark.parametrize(
    ("old", "new", "outcome", "text"),
    [
        ("grad = grad.add(p, ", "grad.add_(p, ", "differs", "changes its inputs"),
        ("lr=0.1", "lr=0.01", "differs", "regular inputs"),
        ("grad = p.grad\n", "grad = p.grad.clone()\n", "same", ""),
    ],
)
async def test_an_optimizer_makes_steps_with_gradients(make_project, old, new, outcome, text):
    root = make_project({"plain.py": OPTIMIZER})
    (root / "plain.py").write_text(OPTIMIZER.replace(old, new), encoding="utf-8")
    pool = LabPool(root)
    arguments = {"paths": ["plain.py"], "since": "HEAD", "seconds": 60}
    found = await load_tools().get("torch-versions").run(ToolContext(root, bench=pool), arguments)
    await pool.close()
    (compared,) = found.output["comparisons"]
    assert (compared["outcome"], compared["target"]) == (outcome, "plain.py:Plain.step")
    assert text in " ".join(compared.get("differences", ()))
