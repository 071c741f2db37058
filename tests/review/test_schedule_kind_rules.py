"""Cases of ESP250 and ESP259: the mode of a plateau scheduler, and the interval of Lightning's schedulers."""

from __future__ import annotations

import pytest

PLATEAU = """
    import torch
    from torch.optim.lr_scheduler import ReduceLROnPlateau

    def train(model, opt, loader, val):
        sched = ReduceLROnPlateau(opt{mode})
        for epoch in range(10):
            run(model, opt, loader)
            val_loss, val_acc, metrics = validate(model, val)
            {step}
    """


@pytest.mark.parametrize(
    ("mode", "step"),
    [
        (', mode="max"', "sched.step(val_loss)"),
        (', "max", patience=3', "sched.step(metrics['val/loss'])"),
        ("", "sched.step(val_acc)"),
        (', mode="min"', "sched.step(metrics['accuracy'])"),
        (', mode="max"', "sched.step(val_loss / len(val))"),
        ("", "sched.step(val_acc.item())"),
    ],
)
def test_a_mode_against_the_metric_is_reported(found, mode, step):
    assert len(found("ESP250", PLATEAU.format(mode=mode, step=step))) == 1


@pytest.mark.parametrize(
    ("mode", "step"),
    [
        ("", "sched.step(val_loss)"),
        (', mode="max"', "sched.step(val_acc)"),
        ("", "sched.step(-val_acc)"),
        ("", "sched.step(1 - val_acc)"),
        (', mode="max"', "sched.step(metrics['value'])"),
        (", mode=mode", "sched.step(val_loss)"),
        (', mode="max"', "sched.step(-val_loss)"),
    ],
)
def test_a_mode_that_fits_or_is_not_known_is_not_reported(found, mode, step):
    assert found("ESP250", PLATEAU.format(mode=mode, step=step)) == []


def test_a_scheduler_of_the_object_is_followed(found):
    source = """
        import torch

        class Trainer:
            def __init__(self, opt):
                self.sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, "max")

            def end_of_epoch(self, val_loss):
                self.sched.step(val_loss)
        """
    assert len(found("ESP250", source)) == 1


LIGHTNING = """
    import pytorch_lightning as pl
    import torch
    from torch.optim.lr_scheduler import OneCycleLR, CosineAnnealingLR, StepLR
    from transformers import get_linear_schedule_with_warmup

    class Net(pl.LightningModule):
        def __init__(self, epochs, train_loader):
            super().__init__()
            self.epochs, self.train_loader = epochs, train_loader
            {init}

        def configure_optimizers(self):
            opt = torch.optim.SGD(self.parameters(), lr=0.1)
            sched = {made}
            return {result}
    """
ONE_CYCLE = "OneCycleLR(opt, max_lr=0.1, total_steps=self.trainer.estimated_stepping_batches)"


def configured(made=ONE_CYCLE, result="[opt], [sched]", init="pass"):
    return LIGHTNING.format(made=made, result=result, init=init)


@pytest.mark.parametrize(
    ("made", "result"),
    [
        (ONE_CYCLE, "[opt], [sched]"),
        (ONE_CYCLE, '{"optimizer": opt, "lr_scheduler": sched}'),
        (ONE_CYCLE, '{"optimizer": opt, "lr_scheduler": {"scheduler": sched}}'),
        ("CosineAnnealingLR(opt, T_max=self.epochs * len(self.train_loader))", "[opt], [sched]"),
        ("get_linear_schedule_with_warmup(opt, 100, num_training_steps=self.total_steps)", "[opt], [sched]"),
        ("OneCycleLR(opt, 0.1, epochs=self.epochs, steps_per_epoch=len(self.train_loader))", "[opt], [sched]"),
    ],
)
def test_a_schedule_of_batches_stepped_by_epoch_is_reported(found, made, result):
    assert found("ESP259", configured(made, result)) == [f"return {result}"]


@pytest.mark.parametrize(
    ("made", "result", "init"),
    [
        (ONE_CYCLE, '[opt], [{"scheduler": sched, "interval": "step"}]', "pass"),
        (ONE_CYCLE, "opt", "pass"),
        (ONE_CYCLE, "[opt], [sched]", "self.automatic_optimization = False"),
        ("CosineAnnealingLR(opt, T_max=self.epochs)", "[opt], [sched]", "pass"),
        ("StepLR(opt, 10)", "[opt], [sched]", "pass"),
        ("get_linear_schedule_with_warmup(opt, 5, num_training_steps=self.epochs)", "[opt], [sched]", "pass"),
        ("OneCycleLR(opt, 0.1, epochs=self.epochs, steps_per_epoch=1)", "[opt], [sched]", "pass"),
    ],
)
def test_other_schedules_are_not_reported(found, made, result, init):
    assert found("ESP259", configured(made, result, init)) == []
