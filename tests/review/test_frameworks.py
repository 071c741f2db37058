"""What training frameworks do for the code they call, and what torchtune leaves to its recipes."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.review.conftest import reviewed

RECIPE = """
import torch
from torchtune import training, utils
from torchtune.recipe_interfaces import FTRecipeInterface
from torch.utils.data import DataLoader, DistributedSampler


class Recipe(FTRecipeInterface):
    def setup(self, data):
        self._device = utils.get_device(device="cuda")
        self._sampler = DistributedSampler(data)
        self._loader = DataLoader(data, sampler=self._sampler, num_workers=4)
{setup}

    def train(self):
        running_loss, num_tokens = 0, 0
        for epoch in range(self.epochs):
            for idx, batch in enumerate(self._loader):
                utils.batch_to_device(batch, self._device)
                count = (batch["labels"] != -100).sum()
                num_tokens += count
                loss = self._loss_fn(self._model(batch["tokens"]), batch["labels"]) * count
                running_loss += loss
                loss.backward()
                if (idx + 1) % self.accumulate == 0:
                    training.scale_grads(self._model, 1 / num_tokens)
                    self._optimizer.step()
                    self._optimizer.zero_grad(set_to_none=True)
{end}
"""


def recipe(setup="self._model = self.model", end="running_loss, num_tokens = 0, 0"):
    return RECIPE.format(setup=indent(dedent(setup), " " * 8), end=indent(dedent(end), " " * 20))


def found(source, *rules):
    return [claim.rule for claim in reviewed(source, *rules).claims]


def test_a_torchtune_recipe_is_told_the_epoch_by_itself_or_not_at_all():
    told = recipe().replace("            for idx", "            self._sampler.set_epoch(epoch)\n            for idx")
    assert found(recipe(), "ESP204") == ["ESP204"]
    assert found(told, "ESP204") == []


@pytest.mark.parametrize("compiles", ["training.compile_model(self._model)", "training.compile_loss(self._loss_fn)"])
def test_what_torchtune_compiles_is_compiled(compiles):
    assert found(recipe(), "ESP407") == ["ESP407"]
    assert found(recipe(compiles), "ESP407") == []


def test_a_batch_that_torchtune_places_is_on_the_device():
    source = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader
    from torchtune import utils

    def fit(data):
        model = nn.Linear(8, 8).to("cuda")
        for x, y in DataLoader(data):
            {place}
            nn.functional.mse_loss(model(x), y).backward()
    """
    placed = dedent(source).format(place='utils.batch_to_device(x, torch.device("cuda"))')
    assert set(found(dedent(source).format(place="pass"), "ESP104")) == {"ESP104"}
    assert found(placed, "ESP104") == []


def test_a_sum_that_ends_where_the_optimizer_steps_keeps_one_step_only():
    assert found(recipe(end="running_loss = 0\nnum_tokens = 0"), "ESP301") == []


def test_lightning_trains_on_what_its_hook_returns():
    source = """
    import lightning as L
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    class Pictures(L.LightningDataModule):
        def {hook}(self):
            return DataLoader(ImageFolder("pictures"), batch_size=32)

    trainer = L.Trainer(accelerator="gpu")
    """
    assert found(dedent(source).format(hook="train_dataloader"), "ESP406") == ["ESP406"]
    assert found(dedent(source).format(hook="test_dataloader"), "ESP406") == []
