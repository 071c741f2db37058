"""Cases of ESP238, ESP241 and ESP515: optimizers made again, momentum of another library, scalers used by half."""

from __future__ import annotations

import pytest

MADE = """
    import torch

    def fit(model, loader, epochs, rates):
        {before}
        for epoch in range(epochs):
            {made}
            for x, y in loader:
                {inner}
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()
    """
ADAM = "optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)"


def test_an_optimizer_made_in_each_epoch_is_reported(found):
    assert found("ESP238", MADE.format(before="pass", made=ADAM, inner="pass")) == [ADAM]


def test_an_optimizer_made_in_each_step_is_reported(found):
    source = MADE.format(before="pass", made="pass", inner=ADAM).replace("for epoch in range(epochs)", "if epochs")
    assert found("ESP238", source) == [ADAM]


def test_an_optimizer_of_an_attribute_is_reported(found):
    made = "optimizer = torch.optim.AdamW(model.net.parameters())"
    assert found("ESP238", MADE.format(before="pass", made=made, inner="pass")) == [made]


@pytest.mark.parametrize(
    "made",
    [
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
        "model = make(); optimizer = torch.optim.Adam(model.parameters())",
        "model.load_state_dict(start); optimizer = torch.optim.Adam(model.parameters())",
        "model.apply(init); optimizer = torch.optim.Adam(model.parameters())",
        "optimizer = torch.optim.Adam(model.parameters(), lr=0.1 / (epoch + 1))",
        "optimizer = torch.optim.Adam([x])",
        "if epoch == 3: optimizer = torch.optim.Adam(model.parameters())",
    ],
)
def test_optimizers_of_other_weights_settings_or_epochs_are_not_reported(found, made):
    assert found("ESP238", MADE.format(before=ADAM, made=made, inner="pass")) == []


def test_an_optimizer_for_each_stage_is_not_reported(found):
    source = """
        import torch

        def fit(model, loader, stages, epochs):
            for stage in stages:
                optimizer = torch.optim.Adam(model.parameters())
                for epoch in range(epochs):
                    for x, y in loader:
                        optimizer.zero_grad()
                        torch.nn.functional.mse_loss(model(x), y).backward()
                        optimizer.step()
        """
    assert found("ESP238", source) == []


@pytest.mark.parametrize("given", ["momentum=0.99", "1e-3, 0.99", "momentum=decay"])
def test_a_momentum_near_one_is_reported(found, given):
    source = f"from torch import nn\n\ndecay = 0.997\nnorm = nn.BatchNorm2d(8, {given})\n"
    assert found("ESP241", source) == [f"norm = nn.BatchNorm2d(8, {given})"]


@pytest.mark.parametrize("given", ["momentum=0.1", "momentum=1 - 0.99", "momentum=None", "1e-5, 0.01", "momentum=1.0"])
def test_other_momenta_are_not_reported(found, given):
    assert found("ESP241", f"from torch import nn\n\nnorm = nn.BatchNorm1d(8, {given})\n") == []


SCALED = """
    import torch

    class Trainer:
        def __init__(self, model, optimizer):
            self.scaler = torch.amp.GradScaler({options})
            self.model, self.optimizer = model, optimizer

        def step(self, x):
            with torch.autocast("cuda"):
                loss = self.model(x)
            self.scaler.scale(loss).backward()
            {rest}
    """


def test_a_plain_step_after_a_scaled_loss_is_reported(found):
    assert found("ESP515", SCALED.format(options="", rest="self.optimizer.step()")) == ["self.optimizer.step()"]


def test_a_scaler_that_nothing_updates_is_reported(found):
    rest = "self.scaler.step(self.optimizer)"
    assert found("ESP515", SCALED.format(options="", rest=rest)) == [rest]


@pytest.mark.parametrize(
    "rest",
    [
        "self.scaler.step(self.optimizer); self.scaler.update()",
        "self.scaler.unscale_(self.optimizer); self.optimizer.step()",
        "pass",
    ],
)
def test_scalers_that_do_all_of_it_are_not_reported(found, rest):
    assert found("ESP515", SCALED.format(options="", rest=rest)) == []


def test_a_scaler_that_another_file_updates_is_not_reported(found):
    source = {
        "train.py": SCALED.format(options="", rest="self.scaler.step(self.optimizer)"),
        "loop.py": "def end(trainer):\n    trainer.scaler.update()\n",
    }
    assert found("ESP515", source) == []


def test_an_object_of_the_project_that_scales_is_not_reported(found):
    source = SCALED.format(options="", rest="self.optimizer.step()").replace("torch.amp.GradScaler()", "Scaler()")
    assert found("ESP515", source) == []
