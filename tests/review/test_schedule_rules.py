"""Cases of ESP227 and ESP228: iterators of parameters that are used up, and schedules stepped in another loop."""

from __future__ import annotations

import pytest

PARAMETERS = """
    import torch
    from torch.nn.utils import clip_grad_norm_

    def fit(model, loader):
        params = {made}
        {use}
        optimizer = torch.optim.Adam(list(model.parameters()))
        for x, y in loader:
            optimizer.zero_grad()
            model(x).sum().backward()
            {clip}
            optimizer.step()
    """


@pytest.mark.parametrize(
    "made",
    [
        "model.parameters()",
        "filter(lambda p: p.requires_grad, model.parameters())",
        "(p for p in model.parameters() if p.requires_grad)",
    ],
)
def test_a_generator_used_in_each_round_is_reported(found, made):
    clip = "clip_grad_norm_(params, 1.0)"
    assert found("ESP227", PARAMETERS.format(made=made, use="pass", clip=clip)) == [clip]


def test_a_generator_that_an_earlier_line_used_is_reported(found):
    source = PARAMETERS.format(made="model.parameters()", use="n = sum(p.numel() for p in params)", clip="pass")
    source = source.replace("Adam(list(model.parameters()))", "Adam(params)")
    assert found("ESP227", source) == ["optimizer = torch.optim.Adam(params)"]


@pytest.mark.parametrize("made", ["list(model.parameters())", "[*model.parameters()]", "model.all_parameters()"])
def test_lists_are_not_reported(found, made):
    assert found("ESP227", PARAMETERS.format(made=made, use="pass", clip="clip_grad_norm_(params, 1.0)")) == []


def test_uses_of_which_one_runs_are_not_reported(found):
    source = """
    import torch

    def optimizer_of(model, name):
        params = model.parameters()
        if name == "adam":
            return torch.optim.Adam(params)
        else:
            return torch.optim.SGD(params, lr=0.1)
    """
    assert found("ESP227", source) == []


def test_an_attribute_used_up_by_the_constructor_is_reported(found):
    source = """
    import torch

    class Trainer:
        def __init__(self, model):
            self.model = model
            self.params = model.parameters()
            self.opt = torch.optim.Adam({given})

        def step(self, loss):
            self.opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_({clipped}, 1.0)
            self.opt.step()
    """
    assert len(found("ESP227", source.format(given="self.params", clipped="self.params"))) == 1
    assert len(found("ESP227", source.format(given="model.parameters()", clipped="self.params"))) == 1
    assert found("ESP227", source.format(given="self.params", clipped="self.model.parameters()")) == []


SCHEDULE = """
    import torch
    from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, OneCycleLR, StepLR, MultiStepLR, ExponentialLR

    def fit(model, loader, args):
        optimizer = torch.optim.Adam(model.parameters())
        total = args.epochs * len(loader)
        scheduler = {made}
        for epoch in range({rounds}):
            for x, y in loader:
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
                {batch}
            {epoch}
    """
STEP = "scheduler.step()"


def schedule(made, batch="pass", epoch="pass", rounds="args.epochs"):
    return SCHEDULE.format(made=made, batch=batch, epoch=epoch, rounds=rounds)


@pytest.mark.parametrize(
    ("made", "rounds"),
    [
        ("CosineAnnealingLR(optimizer, args.epochs)", "args.epochs"),
        ("CosineAnnealingLR(optimizer, T_max=args.epochs)", "1, args.epochs + 1"),
        ("LinearLR(optimizer, total_iters=args.epochs)", "args.epochs"),
        ("CosineAnnealingLR(optimizer, 30)", "30"),
    ],
)
def test_a_schedule_of_epochs_stepped_by_batch_is_reported(found, made, rounds):
    assert found("ESP228", schedule(made, batch=STEP, rounds=rounds)) == [STEP]
    assert found("ESP228", schedule(made, epoch=STEP, rounds=rounds)) == []


@pytest.mark.parametrize(
    "made",
    [
        "OneCycleLR(optimizer, 0.1, epochs=args.epochs, steps_per_epoch=len(loader))",
        "OneCycleLR(optimizer, 0.1, total_steps=total)",
        "CosineAnnealingLR(optimizer, args.epochs * len(loader))",
    ],
)
def test_a_schedule_of_batches_stepped_by_epoch_is_reported(found, made):
    assert found("ESP228", schedule(made, epoch=STEP)) == [STEP]
    assert found("ESP228", schedule(made, batch=STEP)) == []


@pytest.mark.parametrize(
    "made",
    ["CosineAnnealingLR(optimizer, T_max=args.steps)", "StepLR(optimizer, 5000)", "make(optimizer, args.epochs)"],
)
def test_other_schedules_are_not_reported(found, made):
    assert found("ESP228", schedule(made, batch=STEP)) == []
    assert found("ESP228", schedule(made, epoch=STEP)) == []


@pytest.mark.parametrize(
    "made",
    [
        "StepLR(optimizer, 10)",
        "StepLR(optimizer, step_size=30, gamma=0.1)",
        "MultiStepLR(optimizer, milestones=[30, 60, 90])",
        "MultiStepLR(optimizer, [60, 120, 160], gamma=0.2)",
        "ExponentialLR(optimizer, gamma=0.95)",
    ],
)
def test_a_decay_after_a_few_steps_that_is_stepped_by_batch_is_reported(found, made):
    assert found("ESP228", schedule(made, batch=STEP)) == [STEP]
    assert found("ESP228", schedule(made, epoch=STEP)) == []


@pytest.mark.parametrize(
    ("made", "batch"),
    [
        ("StepLR(optimizer, args.step_size)", STEP),
        ("MultiStepLR(optimizer, [30000, 60000])", STEP),
        ("ExponentialLR(optimizer, gamma=0.9999)", STEP),
        ("StepLR(optimizer, 10)", "if args.count % 500 == 0: scheduler.step()"),
    ],
)
def test_a_decay_after_many_steps_is_not_reported(found, made, batch):
    assert found("ESP228", schedule(made, batch=batch)) == []


def test_a_schedule_stepped_in_a_function_of_the_epoch_is_reported(found):
    source = """
    import torch

    class Trainer:
        def __init__(self, model, cfg):
            self.cfg = cfg
            self.opt = torch.optim.Adam(model.parameters())
            self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, T_max=cfg.epochs)

        def fit(self, loader):
            for epoch in range(self.cfg.epochs):
                self.run(loader)

        def run(self, loader):
            for x in loader:
                self.opt.zero_grad()
                self.model(x).sum().backward()
                self.opt.step()
                self.sched.step()
    """
    assert found("ESP228", source) == ["self.sched.step()"]


def test_steps_in_one_loop_over_batches_are_not_reported(found):
    source = """
    import torch

    def fit(model, batches, steps):
        optimizer = torch.optim.Adam(model.parameters())
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
        for step in range(steps):
            optimizer.zero_grad()
            model(next(batches)).sum().backward()
            optimizer.step()
            scheduler.step()
    """
    assert found("ESP228", source) == []


GATHERED = """
    import torch
    from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR
    from transformers import get_linear_schedule_with_warmup

    def updates(loader, epochs, every):
        return epochs * (len(loader) // every)

    def fit(model, loader, epochs, many, args):
        optimizer = torch.optim.Adam(model.parameters())
        each = len(loader) // many
        total = epochs * each
        scheduler = {made}
        for epoch in range(epochs):
            for i, (x, y) in enumerate(loader):
                (model(x).sum() / many).backward()
                if (i + 1) % many == 0:
                    optimizer.step()
                    {both}
                    optimizer.zero_grad()
                {batch}
    """
GATHERED_LENGTHS = [
    "CosineAnnealingLR(optimizer, T_max=total)",
    "CosineAnnealingLR(optimizer, len(loader) * epochs // many)",
    "CosineAnnealingLR(optimizer, updates(loader, epochs, many))",
    "OneCycleLR(optimizer, 0.1, total_steps=int(len(loader) / many) * epochs)",
    "get_linear_schedule_with_warmup(optimizer, 100, total)",
    "get_linear_schedule_with_warmup(optimizer, num_warmup_steps=0, num_training_steps=epochs * len(loader) // many)",
]


@pytest.mark.parametrize("made", GATHERED_LENGTHS)
def test_a_schedule_of_optimizer_steps_stepped_by_batch_is_reported(found, made):
    assert found("ESP228", GATHERED.format(made=made, both="pass", batch=STEP)) == [STEP]
    assert found("ESP228", GATHERED.format(made=made, both=STEP, batch="pass")) == []


@pytest.mark.parametrize(
    "made",
    [
        "CosineAnnealingLR(optimizer, T_max=epochs * len(loader))",
        "CosineAnnealingLR(optimizer, T_max=epochs * len(loader) // args.world)",
        "CosineAnnealingLR(optimizer, updates(loader, epochs, 1))",
        "get_linear_schedule_with_warmup(optimizer, 100, args.steps)",
    ],
)
def test_a_schedule_of_batches_beside_an_accumulation_is_left_alone(found, made):
    assert found("ESP228", GATHERED.format(made=made, both="pass", batch=STEP)) == []
