"""Cases of ESP226, sums of one rank that are used as if they were of all."""

from __future__ import annotations

import pytest

HEAD = """
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def setup(model):
    dist.init_process_group("nccl")
    return DDP(model)


"""

ALONE = {
    "an accuracy that is returned": """
def evaluate(model, loader):
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
            total += y.size(0)
    return correct / total


def main(model, data):
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data, shuffle=False))
    print(evaluate(model, loader))
""",
    "a best checkpoint": """
def main(model, data, epochs):
    sampler = DistributedSampler(data)
    val_loader = DataLoader(data, batch_size=8, sampler=sampler)
    best = 1e9
    for epoch in range(epochs):
        val_loss = 0.0
        for x, y in val_loader:
            with torch.no_grad():
                val_loss += F.cross_entropy(model(x), y).item()
        if val_loss / len(val_loader) < best:
            best = val_loss
            torch.save(model.state_dict(), "best.pt")
""",
    "a trainer": """
class Trainer:
    def __init__(self, model, data):
        self.model = model
        self.val_loader = DataLoader(data, 8, sampler=DistributedSampler(data, shuffle=False))

    def validate(self):
        total = 0.0
        for x, y in self.val_loader:
            total += F.mse_loss(self.model(x), y).item()
        return total / len(self.val_loader)
""",
    "a tensor": """
def test(model, data, device):
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    hits = torch.zeros((), device=device)
    for x, y in loader:
        hits += (model(x.to(device)).argmax(1) == y.to(device)).sum()
    return hits.item() / len(data)
""",
    "a helper that makes the loader": """
def make_loader(data):
    sampler = DistributedSampler(data, shuffle=False)
    return DataLoader(data, batch_size=8, sampler=sampler)


def main(model, data):
    loader = make_loader(data)
    seen = wrong = 0
    for x, y in loader:
        wrong += int((model(x).argmax(-1) != y).sum())
        seen += len(y)
    if dist.get_rank() == 0:
        print(wrong / seen)
""",
    "counted batches": """
def evaluate(model, data):
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    running = 0.0
    for i, (x, y) in enumerate(loader):
        running += model(x).sub(y).abs().mean().item()
    print(f"error {running / (i + 1)}")
""",
}

JOINED = {
    "reduced": """
def evaluate(model, data):
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    correct = torch.zeros(())
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum()
    dist.all_reduce(correct)
    return correct / len(data)
""",
    "reduced by the caller": """
def count(model, loader):
    correct = torch.zeros(())
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum()
    return correct


def main(model, data):
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    total = count(model, loader)
    dist.reduce(total, 0)
""",
    "gathered by a helper": """
def collect(value):
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, value)
    return sum(parts)


def evaluate(model, data):
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    correct = 0
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum().item()
    return collect(correct) / len(data)
""",
    "all of the data on each rank": """
def evaluate(model, data):
    loader = DataLoader(data, batch_size=8)
    correct = 0
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum().item()
    return correct / len(data)
""",
    "a sampler that may be none": """
def evaluate(model, data, sampler):
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    correct = 0
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum().item()
    return correct / len(data)
""",
    "a training loss that is shown": """
def train(model, data, optimizer):
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    shown = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        shown += loss.item()
    print(shown)
""",
    "a step counter": """
def evaluate(model, data):
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    steps = 0
    for x, y in loader:
        model(x)
        steps += 1
    return steps
""",
}


@pytest.mark.parametrize("body", ALONE.values(), ids=ALONE)
def test_a_sum_of_one_rank_is_found(found, body):
    assert len(found("ESP226", HEAD + body)) == 1


@pytest.mark.parametrize("body", JOINED.values(), ids=JOINED)
def test_sums_that_ranks_join_or_that_are_whole_are_left_alone(found, body):
    assert found("ESP226", HEAD + body) == []


def test_a_program_of_one_process_is_left_alone(found):
    source = HEAD.replace('dist.init_process_group("nccl")', "pass").replace("return DDP(model)", "return model")
    assert found("ESP226", source + ALONE["a tensor"]) == []
