"""Tests of the facts about the cost of a step."""

from __future__ import annotations

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources

LOOP = """\
import gc; import torch
from torch.utils.data import DataLoader

def train(model, data, optimizer, criterion, device):
    model = torch.compile(model)
    torch.set_float32_matmul_precision("high")
    loader = DataLoader(data, num_workers=4, pin_memory=True{loader})
    for epoch in range(9):
        for step, (x, y) in enumerate(loader):
            x = x.to(device{to})
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            {after}
"""


def facts(loader=", persistent_workers=True", to=", non_blocking=True", after="pass"):
    text = LOOP.format(loader=loader, to=to, after=after)
    done = inspect_sources({"a.py": text}, InspectionSubject(("speed",)), names=["step-costs"])
    assert done.results[0].problem == ""
    return {(fact.assessment, fact.line): fact.text for fact in done.results[0].facts}


def test_a_loop_that_does_everything_well_has_nothing_to_change():
    assert {assessment for assessment, _ in facts()} == {Assessment.FINE}


def test_workers_that_start_at_every_epoch_are_told():
    assert "again at every epoch" in facts(loader="")[Assessment.SHOULD_CHECK, 7]


def test_a_blocking_copy_from_pinned_memory_is_told():
    assert "waits for the copy" in facts(to="")[Assessment.SHOULD_CHECK, 10]


def test_a_wait_at_every_step_is_told_and_one_now_and_then_is_fine():
    assert (Assessment.SHOULD_CHECK, 15) in facts(after="gc.collect()")
    assert (Assessment.SHOULD_CHECK, 15) in facts(after="rows = x.nonzero()")
    rare = facts(after="if step % 50 == 0: print(loss.item())")
    assert "only in some steps" in rare[Assessment.FINE, 15]


def test_a_fetch_for_each_parameter_is_told():
    after = "for p in model.parameters():\n                norm += p.grad.norm().item()"
    found = facts(after=after)
    assert any(line == 16 for assessment, line in found if assessment is not Assessment.FINE)


def test_a_wait_in_forward_is_named_and_one_outside_of_a_module_is_not():
    source = (
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x, lengths):\n"
        "        return x[:, : lengths.amax().item()]\n\n    def size(self):\n        return self.n.item()\n"
    )
    done = inspect_sources({"net.py": source}, InspectionSubject(("speed",)), names=["step-costs"])
    (fact,) = done.results[0].facts
    assert (fact.line, fact.assessment) == (7, Assessment.SHOULD_CHECK)


def test_a_loop_over_parameters_is_reported_once_by_the_function_that_it_is_in():
    source = (
        "import torch\n\nclass Adan(torch.optim.Optimizer):\n    def step(self):\n"
        "        for group in self.param_groups:\n            for p in group['params']:\n"
        "                m, v = self.state[p]\n                m.mul_(0.9).add_(p.grad)\n"
        "                v.lerp_(p.grad, 0.1)\n                p.addcdiv_(m, torch.sqrt(v))\n"
    )
    done = inspect_sources({"a.py": source}, InspectionSubject(("speed",)), names=["parameter-updates"])
    (fact,) = done.results[0].facts
    assert (fact.line, fact.text.partition(" kernels")[0]) == (6, "`Adan.step` launches at least 5")
    few = source.replace("                v.lerp_(p.grad, 0.1)\n                p.addcdiv_(m, torch.sqrt(v))\n", "")
    done = inspect_sources({"a.py": few}, InspectionSubject(("speed",)), names=["parameter-updates"])
    assert not done.results[0].facts


def test_no_line_is_called_slow_and_fine_in_one_answer():
    source = (
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
        "        for step in range(3):\n            if step % 100 == 0:\n                y = x.max().item()\n"
        "        return x * y\n\n\n"
        "net = Net()\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\nfor step, x in enumerate(loader):\n"
        "    optimizer.zero_grad()\n    loss = net(x).sum()\n    loss.backward()\n    optimizer.step()\n"
        "    if step % 100 == 0: print(loss.item()); total = loss.nonzero()\n"
    )
    done = inspect_sources({"net.py": source}, InspectionSubject(("speed",)))
    told = {}
    for fact in (fact for result in done.results for fact in result.facts):
        told.setdefault(fact.line, set()).add(fact.assessment)
    faults = {Assessment.MUST_CHANGE, Assessment.SHOULD_CHECK}
    assert told[9] & faults
    assert not [line for line, found in told.items() if Assessment.FINE in found and found & faults]


FLOW = (
    "import torch\n\n\nclass Flow(torch.nn.Module):\n    def __init__(self, net):\n        super().__init__()\n"
    "        self.net = net\n\n    def inverse(self, x):\n        out = torch.zeros_like(x)\n"
    "        for _ in range({limit}):\n            out = x - self.net(out)\n        return out\n"
)


def test_a_network_that_runs_once_for_each_feature_in_turn_is_told_of_a_named_class():
    asked = InspectionSubject(("speed",), symbols=("a.py:Flow",))
    for limit, number in (("x.shape[1]", 1), ("4", 0)):
        done = inspect_sources({"a.py": FLOW.format(limit=limit)}, asked, names=["step-costs"])
        told = [fact.text for fact in done.results[0].facts if "runs once in each round" in fact.text]
        assert len(told) == number


def test_a_loader_that_takes_the_rows_of_tensors_one_by_one_is_told():
    source = (
        "from torch.utils.data import DataLoader, TensorDataset\n\n\ndef run(x, y):\n"
        "    data = TensorDataset(x, y)\n    return DataLoader(data, batch_size=4096{more})\n"
    )
    for more, number in (("", 1), (", collate_fn=slices", 0), (", sampler=batches", 0)):
        asked = InspectionSubject(("idle device",))
        done = inspect_sources({"a.py": source.format(more=more)}, asked, names=["step-costs"])
        assert len([fact for fact in done.results[0].facts if "one by one" in fact.text]) == number
