"""Further forms in which a loop does again what could be done once."""

from __future__ import annotations

import pytest

LOOP = """
import torch
from torch import nn
from torch.nn.parallel import DataParallel as Both, DistributedDataParallel

class Trainer:
    def __init__(self, net, accumulate):
        self.net = DistributedDataParallel(net)
        self.accumulate = accumulate

    def fit(self, loader, optimizer, device, encoder, parts):
        for step, batch in enumerate(loader, 1):
            {line}
"""


def lines(rule, line, found):
    return found(rule, LOOP.format(line=line.replace("\n", "\n" + " " * 12)))


@pytest.mark.parametrize(
    ("line", "moves"),
    [
        ("encoder = encoder.cuda()\nz = encoder(batch.cuda())", 1),
        ("z = self.head.to(device)(batch.to(device))", 1),
        ("batch = batch.to(device)\nz = encoder(batch)", 0),
        ("for part in parts:\n    part.to(device)\n    part(batch)", 0),
        ("parts[step].to(device)\nz = parts[step](batch)", 0),
    ],
)
def test_what_is_moved_and_called_is_a_module_whatever_its_name(line, moves, found):
    assert len(lines("ESP402", line, found)) == moves


@pytest.mark.parametrize("skip", ["if step % self.accumulate:\n    continue", "if seen < 4:\n    continue\nseen = 0"])
def test_a_skip_before_the_step_accumulates(skip, found):
    line = f"seen = seen + 1 if step else 0\nseen += 1\nself.net(batch).mean().backward()\n{skip}\noptimizer.step()"
    assert lines("ESP412", line, found) == ["self.net(batch).mean().backward()"]
    assert lines("ESP412", line.replace(skip, "if batch is None:\n    continue"), found) == []


@pytest.mark.parametrize("wrapped", ["Both(encoder)", "nn.DataParallel(module=encoder)"])
def test_one_process_for_all_devices_is_found_under_any_name(wrapped, found):
    assert lines("ESP403", wrapped, found) == [wrapped]
    assert lines("ESP403", "DistributedDataParallel(encoder)", found) == []


def test_anomaly_detection_round_a_training_step_is_left_on(found):
    step = """
    import torch

    class Trainer:
        def step(self, x, y):
            with torch.autograd.detect_anomaly():
                self.loss(self.net(x), y).backward()
            self.optimizer.step()
    """
    assert found("ESP404", step) == ["with torch.autograd.detect_anomaly():"]
    assert found("ESP404", step.replace("self.optimizer.step()", "self.report()")) == []


def test_entries_of_a_dict_grow_by_themselves(found):
    merge = """
    import torch

    def merge(batches):
        whole = {"x": torch.tensor([]), "y": torch.tensor([])}
        for batch in batches:
            whole["x"] = torch.cat([whole["x"], batch["x"]])
            whole["y"] = torch.cat([whole["y"], batch["y"]])
        return whole
    """
    assert found("ESP401", merge) == [
        'whole["x"] = torch.cat([whole["x"], batch["x"]])',
        'whole["y"] = torch.cat([whole["y"], batch["y"]])',
    ]
    again = merge.replace('batch["y"]])', 'whole["x"].mean(0)])')
    assert found("ESP401", again) == ['whole["y"] = torch.cat([whole["y"], whole["x"].mean(0)])']


COMPILING = """
import torch

def step(model, x):
    fast = torch.compile(model)
    return {returned}

def run(model, loader):
    for x in loader:
        step(model, x)
"""


def test_a_helper_that_compiles_for_every_round_is_found(found):
    assert found("ESP504", COMPILING.format(returned="fast(x)")) == ["fast = torch.compile(model)"]
    assert found("ESP504", COMPILING.format(returned="fast")) == []


def test_a_helper_that_compiles_what_the_loop_goes_over_is_right(found):
    models = COMPILING.format(returned="fast(x)").replace("for x in loader", "for model in loader")
    assert found("ESP504", models) == []


LOADERS = """
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

def fit(model, optimizer):
    loaders = {loaders}
    for x, y in loaders["train"]:
        model(x.cuda(), y.cuda()).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("loaders", "count"),
    [
        ("{k: DataLoader(ImageFolder(k), 16) for k in ['train', 'test']}", 1),
        ("{'train': DataLoader(ImageFolder('a')), 'test': DataLoader(ImageFolder('b'))}", 1),
        ("{'train': DataLoader(ImageFolder('a'), num_workers=8), 'test': DataLoader(ImageFolder('b'))}", 0),
    ],
)
def test_loaders_in_a_dict_are_known(loaders, count, found):
    assert len(found("ESP406", LOADERS.format(loaders=loaders))) == count


FED = """
import torch
from torch.utils.data import DataLoader

def fit(data, model, optimizer, steps):
    loader = DataLoader(data, 32, num_workers=4)
    {feeding}
"""


@pytest.mark.parametrize(
    ("feeding", "count"),
    [
        ("rounds = iter(loader)\n    for _ in range(steps):\n        x = next(rounds)\n        model({moved})", 1),
        ("return torch.cat([model({moved}) for x in loader])", 1),
        ("return torch.cat([model(x) for x in loader])", 0),
    ],
)
def test_a_loader_that_is_drawn_from_in_other_ways_is_gone_over(feeding, count, found):
    source = FED.format(feeding=feeding.format(moved="x.cuda(non_blocking=True)"))
    assert len(found("ESP413", source)) == count
    assert not found("ESP413", source.replace("num_workers=4", "num_workers=4, pin_memory=True"))
