"""ESP409, ESP410, ESP412, ESP506, ESP513 and ESP902 in the spellings that people use beside the usual ones."""

from __future__ import annotations

import pytest

from tests.review.conftest import reviewed

WINDOW = """
import torch

def smooth_loss(x, k, lengths):
    out = torch.zeros_like(x)
    for i in range(x.size(0)):
        for j in range(x.size(1)):
            out[i, j] = {value}
    return out
"""


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ("x[i, max(0, j - k):j + k + 1].mean()", 1),
        ("torch.sum(x[i, j:j + k])", 1),
        ("x[i, :j + 1].max()", 1),
        ("x[i, :lengths[j]].mean()", 0),
        ("x[i, j] + out[i, max(0, j - k):j].sum()", 0),
    ],
)
def test_a_window_that_is_reduced_at_once_is_an_element_like_others(value, count):
    assert len(reviewed(WINDOW.format(value=value), "ESP409").claims) == count


JOINED = """
import torch

def gather(model, {data}, device):
    kept = []
    for x, y in {data}:
        {line}
    return torch.{joining}(kept)
"""


@pytest.mark.parametrize(
    ("data", "line", "joining"),
    [
        ("loader", "kept.append(y.to(device))", "cat"),
        ("train_dl", "kept.append(y.to(device))", "stack"),
        ("pairs", "kept.append(y.to(device))", "cat"),
        ("pairs", "y = y.to(device)\n        kept.append(y)", "cat"),
    ],
)
def test_batches_that_are_moved_as_they_come_are_no_samples(data, line, joining):
    assert reviewed(JOINED.format(data=data, line=line, joining=joining), "ESP410").claims == ()


@pytest.mark.parametrize(
    ("line", "joining"),
    [
        ("kept.append(y.to(device))", "stack"),
        ("kept.append(y.to(device).unsqueeze(0))", "cat"),
        ("kept.append(y[None].to(device))", "cat"),
        ("y = load_image(y).unsqueeze(0).to(device)\n        kept.append(y)", "cat"),
    ],
)
def test_samples_that_get_an_axis_and_are_joined_are_found(line, joining):
    assert len(reviewed(JOINED.format(data="pairs", line=line, joining=joining), "ESP410").claims) == 1


SHARDED = """
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard

def train(model, loader, optimizer, every):
    {wrap}
    for i, (x, y) in enumerate(loader):
        {before}
        (criterion(model(x), y) / every).backward()
        if (i + 1) % every == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize("wrap", ["model = FSDP(model)", "fully_shard(model)"])
def test_accumulation_of_a_model_in_shards_is_advice(wrap):
    claims = reviewed(SHARDED.format(wrap=wrap, before="pass"), "ESP412").claims
    assert [claim.severity.value for claim in claims] == ["suggestion"]
    held = "model.set_requires_gradient_sync((i + 1) % every == 0)"
    assert reviewed(SHARDED.format(wrap=wrap, before=held), "ESP412").claims == ()


NUMBER = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.step, self.other, self.scale = 0, 0, 1.0

    def set_step(self, step):
        self.step = step

    def forward(self, x):
        return x * self.step * self.scale

def run(batches):
    net = Net()
    fast = torch.compile(net)
    count = 0
    for i, x in enumerate(batches):
        count += 1
        {line}
        fast(x)
"""


@pytest.mark.parametrize("line", ["net.step = i", "net.step += 1", "net.set_step(i)", "net.step = count - 1"])
def test_a_number_of_a_compiled_module_that_is_set_in_each_round_is_found(found, line):
    assert found("ESP506", NUMBER.format(line=line)) == [line]


@pytest.mark.parametrize(
    "line", ["net.other = i", "net.step = 3", "net.scale = i / 10", "if i % 50 == 0:\n            net.step = i"]
)
def test_a_number_that_is_not_read_or_seldom_changes_is_left_alone(found, line):
    assert found("ESP506", NUMBER.format(line=line)) == []


EXPORTER = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.1))

    def forward(self, x):
        return self.f(x)

class Trainer:
    def __init__(self, device):
        self.net = Net().to(device)

    def check(self, loader):
        {check}

    def export(self, x):
        {before}
        return torch.jit.trace(self.net, x)
"""


@pytest.mark.parametrize(
    ("check", "before", "count"),
    [
        ("pass", "pass", 1),
        ("pass", "self.net.train()", 1),
        ("self.net.eval()", "pass", 0),
        ("pass", "self.net.eval()", 0),
    ],
)
def test_a_model_that_an_object_holds_is_exported_in_the_mode_it_was_left_in(check, before, count):
    assert len(reviewed(EXPORTER.format(check=check, before=before), "ESP513").claims) == count


LOADING = """
from transformers import AutoModel

def load(args, checkpoint, folder, name="acme/model"):
    return AutoModel.from_pretrained({given}, trust_remote_code=True{more})
"""


@pytest.mark.parametrize(
    ("given", "more", "severities"),
    [
        ("'acme/model'", "", ["warning"]),
        ("name", "", ["warning"]),
        ("checkpoint", "", ["suggestion"]),
        ("args.model", "", ["suggestion"]),
        ("checkpoint", ", revision=args.revision", []),
        ("folder", "", []),
        ("args.model_dir", "", []),
        ("'./acme/model'", "", []),
    ],
)
def test_remote_code_of_a_repository_that_a_variable_names_is_advice(given, more, severities):
    claims = reviewed(LOADING.format(given=given, more=more), "ESP902").claims
    assert [claim.severity.value for claim in claims] == severities
