"""Cases of flags that a target ignores, of negative powers of counts, and of where two rules report."""

from __future__ import annotations

import pytest

UPDATE = """
    import torch
    import torch.nn.functional as F

    class Agent:
        def target(self, reward, following):
            return reward + 0.99 * self.t(following).max(1)[0]

        def update(self, batch):
            {unpack}
            chosen = self.q(s).gather(1, a.unsqueeze(1)).squeeze(1)
            loss = F.mse_loss(chosen, {target})
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
    """
UNPACK = "s, a, r, s2, done = batch"


@pytest.mark.parametrize(
    ("unpack", "target"),
    [
        (UNPACK, "self.target(r, s2).detach()"),
        (UNPACK, "(r + 0.99 * self.t(s2).amax(1)).detach()"),
        ("s, a, r, s2, terminated = batch", "self.target(r, s2).detach()"),
    ],
)
def test_a_flag_that_the_target_does_not_use_is_reported(found, unpack, target):
    assert found("ESP268", UPDATE.format(unpack=unpack, target=target)) == [unpack]


@pytest.mark.parametrize(
    ("unpack", "target"),
    [
        (UNPACK, "(r + 0.99 * (1 - done) * self.t(s2).amax(1)).detach()"),
        (UNPACK, "self.weigh(self.target(r, s2), done)"),
        ("s, a, r, s2, _ = batch", "self.target(r, s2).detach()"),
        (UNPACK, "r"),
    ],
)
def test_a_flag_that_is_read_or_not_wanted_is_not_reported(found, unpack, target):
    source = UPDATE.format(unpack=unpack, target=target)
    if target == "r":
        source = source.replace("reward + 0.99 * self.t(following).max(1)[0]", "reward")
    assert found("ESP268", source) == []


DEGREES = """
    import torch

    def normalised(edges, n, weight):
        row, col = edges
        degree = torch.zeros(n).scatter_add_(0, row, torch.ones(row.numel()))
        {more}
        inverse = {power}
        {after}
        return {result}
    """


@pytest.mark.parametrize(
    "power", ["degree.pow(-0.5)", "degree ** -0.5", "degree.rsqrt()", "torch.rsqrt(degree)", "torch.pow(degree, -0.5)"]
)
def test_a_negative_power_of_a_count_is_reported(found, power):
    assert found("ESP211", DEGREES.format(more="pass", power=power, after="pass", result="inverse * weight")) == [
        f"inverse = {power}"
    ]


@pytest.mark.parametrize(
    ("more", "power", "after"),
    [
        ("pass", "degree.clamp(min=1).pow(-0.5)", "pass"),
        ("degree = degree + 1", "degree.pow(-0.5)", "pass"),
        ("pass", "degree.pow(-0.5)", "inverse[inverse == float('inf')] = 0"),
        ("pass", "degree.pow(-0.5)", "inverse = inverse.masked_fill(torch.isinf(inverse), 0)"),
    ],
)
def test_counts_above_zero_and_handled_infinities_are_not_reported(found, more, power, after):
    source = DEGREES.format(more=more, power=power, after=after, result="inverse * weight")
    assert found("ESP211", source) == []


def test_powers_of_counts_that_are_read_where_something_was_counted_are_not_reported(found):
    source = DEGREES.format(more="pass", power="degree.pow(-0.5)", after="pass", result="inverse[row] * weight")
    assert found("ESP211", source) == []


KEPT = """
    import torch

    class Scaler:
        def __init__(self, x):
            self.mean, self.std = x.mean({axis}), x.std({axis})

        def __call__(self, x):
            return (x - self.mean) / self.std
    """


def test_a_spread_of_all_values_together_is_not_reported(found):
    assert found("ESP211", KEPT.format(axis="0")) == ["return (x - self.mean) / self.std"]
    assert found("ESP211", KEPT.format(axis="")) == []


SAVED = """
    import torch
    from torch.nn.parallel import DistributedDataParallel

    def save(path, model):
        torch.save(model.state_dict(), path)

    def fit(rank, model, loader, optimizer):
        model = DistributedDataParallel(model.to(rank), device_ids=[rank])
        for x in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        {save}
    """


def test_a_save_by_every_rank_is_reported_where_the_test_is_missing(found):
    assert found("ESP122", SAVED.format(save='save("a.pt", model)')) == ['save("a.pt", model)']
    assert found("ESP122", SAVED.format(save='if rank == 0: save("a.pt", model)')) == []


EPOCHS = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset, random_split

    def run_epoch(model, loader, optimizer):
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(model(x), y)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    def main(model, optimizer, x, y):
        one, two = random_split(TensorDataset(x, y), [80, 20])
        first = DataLoader(one, 8, shuffle={shuffle})
        second = DataLoader(two, 8)
        run_epoch(model, first, optimizer)
        run_epoch(model, second, {given})
    """


@pytest.mark.parametrize(
    ("shuffle", "given", "count"), [("True", "None", 0), ("True", "optimizer", 1), ("False", "None", 1)]
)
def test_a_loader_that_is_run_without_an_optimizer_may_keep_its_order(found, shuffle, given, count):
    assert len(found("ESP255", EPOCHS.format(shuffle=shuffle, given=given))) == count
