"""What must hold of the network whatever it has learned."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from data import make_patterns
from model import Classifier, smoothed_loss


def test_the_network_gives_one_logit_for_each_class() -> None:
    assert Classifier()(torch.zeros(3, 1, 8, 8)).shape == (3, 10)


def test_the_loss_is_lowest_for_the_right_class() -> None:
    labels = torch.arange(10)
    sure = 5.0 * torch.eye(10)
    assert smoothed_loss(sure, labels) < smoothed_loss(sure.roll(1, dims=0), labels)


def test_the_same_seed_makes_the_same_patterns() -> None:
    first, second = make_patterns(8, seed=3), make_patterns(8, seed=3)
    assert torch.equal(first.tensors[0], second.tensors[0])
