"""Cases of ESP146, ESP284, ESP297 and ESP298: what belongs together and comes apart."""

from __future__ import annotations

import pytest

MIX = """
    import numpy as np
    import torch

    def mix(a, lam):
        return lam * a + (1 - lam) * a[torch.randperm(len(a))]

    def mix_by(a, lam, order):
        return lam * a + (1 - lam) * a[order]

    def mixup(x, y, lam):
        n = x.size(0)
        {body}
    """


@pytest.mark.parametrize(
    "body",
    [
        "return mix(x, lam), mix(y, lam)",
        "a = mix(x, lam)\n        b = mix(y, lam)\n        return a, b",
        (
            "i = torch.randperm(n)\n        x = lam * x + (1 - lam) * x[i]\n        j = torch.randperm(n)\n"
            "        y = lam * y + (1 - lam) * y[j]\n        return x, y"
        ),
        "x = lam * x + (1 - lam) * x[torch.randperm(n)]\n        return x, y, y[torch.randperm(n)]",
        (
            "x = x * lam + x[np.random.permutation(n)] * (1 - lam)\n        other = y[np.random.permutation(n)]\n"
            "        return x, y, other"
        ),
    ],
)
def test_inputs_and_targets_mixed_with_two_permutations_are_reported(found, body):
    assert len(found("ESP284", MIX.format(body=body))) == 1


@pytest.mark.parametrize(
    "body",
    [
        "i = torch.randperm(n)\n        return mix_by(x, lam, i), mix_by(y, lam, i)",
        "i = torch.randperm(n)\n        return lam * x + (1 - lam) * x[i], y, y[i]",
        "return mix(x, lam), y",
        "return x[torch.randperm(n)], y[torch.randperm(n)]",
        (
            "if lam > 0.5:\n            x = lam * x + (1 - lam) * x[torch.randperm(n)]\n        else:\n"
            "            y = y[torch.randperm(n)]\n        return x, y"
        ),
    ],
)
def test_one_permutation_for_both_is_not_reported(found, body):
    assert found("ESP284", MIX.format(body=body)) == []


SPLIT = """
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, Subset, WeightedRandomSampler, random_split

    def make(full, n, weights):
        train, test = random_split(full, [n, len(full) - n])
        {body}
        return loader
    """


@pytest.mark.parametrize(
    "body",
    [
        "labels = torch.tensor(full.targets)[: len(train)]\n        loader = DataLoader(train)",
        "labels = full.targets[:n]\n        loader = DataLoader(train)",
        "labels = np.array(full.targets)[len(train):]\n        loader = DataLoader(test)",
        "all = torch.as_tensor(full.labels)\n        labels = all[: len(train)]\n        loader = DataLoader(train)",
        "w = weights[full.targets]\n        loader = DataLoader(train, sampler=WeightedRandomSampler(w, len(w)))",
        (
            "w = [weights[y] for y in full.targets]\n        s = WeightedRandomSampler(w, n)\n"
            "        loader = DataLoader(train, sampler=s)"
        ),
    ],
)
def test_labels_of_the_whole_for_a_shuffled_part_are_reported(found, body):
    assert len(found("ESP297", SPLIT.format(body=body))) == 1


@pytest.mark.parametrize(
    "body",
    [
        "labels = torch.tensor(full.targets)[train.indices]\n        loader = DataLoader(train)",
        (
            "w = [weights[full.targets[i]] for i in train.indices]\n"
            "        loader = DataLoader(train, sampler=WeightedRandomSampler(w, len(w)))"
        ),
        "w = weights[full.targets]\n        loader = DataLoader(full, sampler=WeightedRandomSampler(w, len(w)))",
        "first = Subset(full, range(n))\n        labels = full.targets[:8]\n        loader = DataLoader(first)",
        "shown = full.classes[:n]\n        loader = DataLoader(train)",
    ],
)
def test_labels_by_the_indices_of_the_part_are_not_reported(found, body):
    assert found("ESP297", SPLIT.format(body=body)) == []


TIED = """
    import torch
    from torch import nn

    def outside(m):
        if isinstance(m, nn.Linear):
            m.weight = torch.nn.Parameter(torch.zeros_like(m.weight))

    class Model(nn.Module):
        def __init__(self, words, size):
            super().__init__()
            self.embed = nn.Embedding(words, size)
            self.out = nn.Linear(size, words)
            {lines}

        def fresh(self, m):
            if isinstance(m, nn.Linear):
                m.weight = nn.Parameter(torch.randn_like(m.weight))

        def in_place(self, m):
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight)
    """
TIE = "self.out.weight = self.embed.weight"


@pytest.mark.parametrize(
    "lines",
    [
        (TIE, "self.apply(self.fresh)"),
        (TIE, "self.apply(outside)"),
        ("self.embed.weight = self.out.weight", "self.apply(self.fresh)"),
        (TIE, "self.out.weight = nn.Parameter(torch.zeros(words, size))"),
        (TIE, "self.embed = nn.Embedding(words, size, padding_idx=0)"),
        (TIE, "self.out = nn.Linear(size, words, bias=False)"),
    ],
)
def test_a_tied_weight_that_is_replaced_is_reported(found, lines):
    assert len(found("ESP298", TIED.format(lines="\n            ".join(lines)))) == 1


@pytest.mark.parametrize(
    "lines",
    [
        ("self.apply(self.fresh)", TIE),
        (TIE, "self.apply(self.in_place)"),
        (TIE, "nn.init.normal_(self.embed.weight)"),
        ("self.apply(self.fresh)", "self.norm = nn.LayerNorm(size)"),
        ("self.out = nn.Linear(size, words, bias=False)", TIE),
    ],
)
def test_weights_tied_last_or_filled_in_place_are_not_reported(found, lines):
    assert found("ESP298", TIED.format(lines="\n            ".join(lines))) == []


OFF = """
    import torch

    def evaluate(model, batches):
        {off}
        for x in batches:
            model(x)

    def train_epoch(model, batches, optimizer):
        for x in batches:
            optimizer.zero_grad()
            {before}model(x).mean().backward()
            optimizer.step()

    def main(model, batches, optimizer):
        {body}
    """
LOOP = (
    "for epoch in range(3):\n            train_epoch(model, batches, optimizer)\n            evaluate(model, batches)"
)
ONCE = "evaluate(model, batches)\n        train_epoch(model, batches, optimizer)"
LAST = "train_epoch(model, batches, optimizer)\n        evaluate(model, batches)"
SWITCH = "torch.set_grad_enabled(False)"


@pytest.mark.parametrize(
    ("off", "body"),
    [
        (SWITCH, LOOP),
        (SWITCH, ONCE),
        ("torch.set_grad_enabled(mode=False)", LOOP),
        ("torch.autograd.set_grad_enabled(False)", LOOP),
        ("if model is not None:\n            torch.set_grad_enabled(False)", ONCE),
    ],
)
def test_gradients_left_off_before_a_training_are_reported(found, off, body):
    assert len(found("ESP146", OFF.format(off=off, before="", body=body))) == 1


@pytest.mark.parametrize(
    ("off", "before", "body"),
    [
        (SWITCH, "", LAST),
        (SWITCH, "torch.set_grad_enabled(True)\n            ", LOOP),
        ("was = torch.is_grad_enabled()", "", LOOP),
        ("with torch.set_grad_enabled(False): model(batches)", "", LOOP),
        (SWITCH, "", "evaluate(model, batches)"),
    ],
)
def test_gradients_off_at_the_end_or_set_back_are_not_reported(found, off, before, body):
    assert found("ESP146", OFF.format(off=off, before=before, body=body)) == []
