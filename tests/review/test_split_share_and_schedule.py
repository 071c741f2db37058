"""Cases of schedules, shards, splits, shared targets and Q-values that are written over several functions."""

from __future__ import annotations

import pytest

SCHEDULE = """
    import torch
    from torch import nn

    def build(model, epochs, steps):
        opt = torch.optim.AdamW(model.parameters())
        return opt, {schedule}

    class Runner:
        def __init__(self, loader, epochs):
            self.model, self.loader, self.epochs = nn.Linear(4, 4), loader, epochs
            self.opt, self.sched = build(self.model, epochs, len(loader))

        def train(self):
            for x, y in self.loader:
                self.opt.zero_grad()
                nn.functional.mse_loss(self.model(x), y).backward()
                self.opt.step()
                {batch}

        def fit(self):
            for epoch in range(self.epochs):
                self.train()
                {epoch}
    """
CYCLE = "torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, epochs=epochs, steps_per_epoch=steps)"


def test_a_schedule_of_all_batches_from_a_helper_that_is_stepped_by_epoch_is_reported(found):
    step = "self.sched.step()"
    assert found("ESP228", SCHEDULE.format(schedule=CYCLE, batch="pass", epoch=step)) == [step]


@pytest.mark.parametrize(
    "form",
    [
        {"schedule": CYCLE, "batch": "self.sched.step()", "epoch": "pass"},
        {"schedule": "torch.optim.lr_scheduler.StepLR(opt, 3)", "batch": "pass", "epoch": "self.sched.step()"},
        {"schedule": "None", "batch": "pass", "epoch": "self.sched.step()"},
    ],
)
def test_a_schedule_that_is_stepped_as_it_counts_is_not_reported(found, form):
    assert found("ESP228", SCHEDULE.format(**form)) == []


SHARDS = '''
    import numpy as np
    from torch.utils.data import DataLoader, IterableDataset

    class Shards(IterableDataset):
        """Streams blocks of shards."""

        def __init__(self, files, seed):
            self.files, self.seed = sorted(files), seed

        def blocks(self, path, rng):
            """Yield the blocks of a shard."""
            for block in np.load(path):
                yield block

        def __iter__(self):
            rng = np.random.default_rng(self.seed)
            for i in {order}:
                {give}

    loader = DataLoader(Shards(["a", "b"], 0), 8, num_workers=4)
    '''


@pytest.mark.parametrize(
    ("order", "give"),
    [
        ("rng.permutation(len(self.files))", "yield from self.blocks(self.files[i], rng)"),
        ("range(len(self.files))", "yield from self.blocks(self.files[i], rng)"),
        ("range(len(self.files))", "yield np.load(self.files[i])"),
    ],
)
def test_shards_that_each_worker_reads_in_full_are_reported(found, order, give):
    assert len(found("ESP222", SHARDS.format(order=order, give=give))) == 1


@pytest.mark.parametrize(
    ("order", "give"),
    [
        ("range(worker_id(), len(self.files), 4)", "yield from self.blocks(self.files[i], rng)"),
        ("range(self.rank, len(self.files), self.world_size)", "yield from self.blocks(self.files[i], rng)"),
        ("range(self.shard_index, len(self.files), 4)", "yield np.load(self.files[i])"),
    ],
)
def test_shards_that_are_divided_are_not_reported(found, order, give):
    assert found("ESP222", SHARDS.format(order=order, give=give)) == []


SPLIT = """
    import numpy as np
    import torch

    class Scaler:
        def fit(self, rows):
            self.mean, self.std = {statistics}
            return self

        def transform(self, rows):
            return (rows - self.mean) / self.std

    def build(raw, context, a, b):
        scaler = Scaler()
        {scaled}
        parts = {parts}
        return parts, scaler
    """
STATISTICS = "rows.mean(axis=0), rows.std(axis=0)"
PARTS = "{'train': values[:a], 'valid': values[a - context:b], 'test': values[b - context:]}"


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ({}, "values = scaler.fit(raw).transform(raw)"),
        ({"parts": "[values[:a], values[a:]]"}, "values = scaler.fit(raw).transform(raw)"),
        (
            {"scaled": "scaler.fit(raw); values = scaler.transform(raw)"},
            "scaler.fit(raw); values = scaler.transform(raw)",
        ),
        ({"statistics": "np.mean(rows, axis=0), np.std(rows, axis=0)"}, "values = scaler.fit(raw).transform(raw)"),
    ],
)
def test_a_scaler_of_the_project_that_learns_from_all_rows_is_reported(found, form, line):
    given = {"statistics": STATISTICS, "scaled": "values = scaler.fit(raw).transform(raw)", "parts": PARTS, **form}
    assert found("ESP229", SPLIT.format(**given)) == [line]


@pytest.mark.parametrize(
    "form",
    [
        {"scaled": "values = scaler.fit(raw[:a]).transform(raw)"},
        {"statistics": "0.5, 0.25"},
        {"parts": "[values[i:i + context] for i in range(a)]"},
        {"statistics": "rows.mean(axis=1), rows.std(axis=1)"},
    ],
)
def test_statistics_of_the_training_rows_are_not_reported(found, form):
    given = {"statistics": STATISTICS, "scaled": "values = scaler.fit(raw).transform(raw)", "parts": PARTS, **form}
    assert found("ESP229", SPLIT.format(**given)) == []


AVERAGE = """
    import copy
    import torch
    from torch import nn

    class Average:
        def __init__(self, online):
            self.net = {held}

        @torch.no_grad()
        def update(self, online):
            for a, b in zip({pairs}):
                a.lerp_(b, 0.01)

    def main():
        online = nn.Linear(4, 4).to("cpu")
        target = Average(online)
        target.update({given})
    """
PAIRS = "self.net.parameters(), online.parameters()"


@pytest.mark.parametrize(
    "pairs", [PAIRS, "online.parameters(), self.net.parameters()", "self.net.buffers(), online.buffers()"]
)
def test_an_average_of_a_network_with_itself_is_reported(found, pairs):
    assert found("ESP290", AVERAGE.format(held="online", pairs=pairs, given="online")) == ["self.net = online"]


@pytest.mark.parametrize(
    ("held", "pairs", "given"),
    [
        ("copy.deepcopy(online)", PAIRS, "online"),
        ("online", PAIRS, "nn.Linear(4, 4)"),
        ("online", "online.parameters(), online.parameters()", "online"),
    ],
)
def test_an_average_of_a_copy_is_not_reported(found, held, pairs, given):
    assert found("ESP290", AVERAGE.format(held=held, pairs=pairs, given=given)) == []


VALUES = """
    import torch
    import torch.nn.functional as F

    class Agent:
        def target(self, r, s, gamma):
            {best}
            return r + gamma * nxt

        def update(self, s, a, r, s2):
            chosen = self.q(s).gather(1, a.unsqueeze(1)){end}
            loss = F.smooth_l1_loss(chosen, {target})
            return loss
    """
DOUBLE = "nxt = self.t(s).gather(1, self.q(s).argmax(1, keepdim=True)).squeeze(1)"
LOSS = "loss = F.smooth_l1_loss(chosen, {target})"


@pytest.mark.parametrize(
    ("best", "target"),
    [
        (DOUBLE, "self.target(r, s2, 0.9)"),
        (DOUBLE, "self.target(r, s2, 0.9).detach()"),
        ("nxt = self.t(s).max(1)[0]", "r + 0.9 * self.t(s2).max(1)[0]"),
    ],
)
def test_a_column_against_a_row_of_another_method_is_reported(found, best, target):
    source = VALUES.format(best=best, end="", target=target)
    assert found("ESP105", source) == [LOSS.format(target=target)]


@pytest.mark.parametrize(
    ("best", "end", "target"),
    [
        (DOUBLE, ".squeeze(1)", "self.target(r, s2, 0.9)"),
        (DOUBLE.replace(".squeeze(1)", ""), "", "self.target(r, s2, 0.9)"),
        (DOUBLE, "", "self.target(r, s2, 0.9).unsqueeze(1)"),
    ],
)
def test_values_of_one_shape_are_not_reported(found, best, end, target):
    assert found("ESP105", VALUES.format(best=best, end=end, target=target)) == []
