"""Cases of ESP293: transforms that are set on a data set which several parts share."""

from __future__ import annotations

import pytest

HEAD = """
import copy
import torch
from torch.utils.data import DataLoader, Subset, random_split
from torchvision import datasets


"""
SPLIT = "train, val = random_split(full, [n - k, k])"
SET = "val.dataset.transform = plain"

SHARED = {
    "a split": ['full = datasets.ImageFolder("d", transform=augment)', SPLIT, SET],
    "a split in place": [
        'train, val = torch.utils.data.random_split(datasets.CIFAR10("d", transform=augment), [n - k, k])',
        SET,
    ],
    "two transforms": [
        'full = datasets.ImageFolder("d")',
        SPLIT,
        "train.dataset.transform = augment",
        SET,
    ],
    "three parts": [
        'full = datasets.ImageFolder("d", transform=augment)',
        "train, val, test = random_split(full, [0.8, 0.1, 0.1])",
        SET,
    ],
    "subsets by index": [
        'full = datasets.ImageFolder("d", transform=augment)',
        "train = Subset(full, order[k:])",
        "val = Subset(full, order[:k])",
        SET,
    ],
    "the transform of targets": [
        'full = datasets.VOCSegmentation("d", transforms=augment)',
        SPLIT,
        "val.dataset.transforms = plain",
    ],
}
APART = {
    "a copy": [
        'full = datasets.ImageFolder("d", transform=augment)',
        SPLIT,
        "val.dataset = copy.copy(full)",
        SET,
    ],
    "one transform for all": ['full = datasets.ImageFolder("d")', SPLIT, SET],
    "no transform before": ['full = datasets.ImageFolder("d", transform=None)', SPLIT, SET],
    "a second data set": [
        'full = datasets.ImageFolder("d", transform=augment)',
        SPLIT,
        'val = Subset(datasets.ImageFolder("d"), val.indices)',
        SET,
    ],
    "exchanged for each epoch": [
        'full = datasets.ImageFolder("d", transform=augment)',
        SPLIT,
        "for epoch in range(3): " + SET,
    ],
    "subsets of two data sets": [
        'full, other = datasets.ImageFolder("d", transform=augment), datasets.ImageFolder("d")',
        "train = Subset(full, order[k:])",
        "val = Subset(other, order[:k])",
        SET,
    ],
    "a single subset": ['full = datasets.ImageFolder("d", transform=augment)', "val = Subset(full, order[:k])", SET],
}


def written(lines):
    return HEAD + "def load(n, k, order, augment, plain):\n    " + "\n    ".join(lines) + "\n    return train, val\n"


@pytest.mark.parametrize("lines", SHARED.values(), ids=SHARED)
def test_a_transform_set_on_one_part_of_a_shared_data_set_is_reported(found, lines):
    assert found("ESP293", written(lines)) == [lines[-1]]


@pytest.mark.parametrize("lines", APART.values(), ids=APART)
def test_a_transform_of_a_data_set_of_its_own_is_left_alone(found, lines):
    assert found("ESP293", written(lines)) == []


def test_parts_that_are_attributes_are_followed(found):
    source = written(SHARED["a split"]).replace("train", "self.train").replace("val", "self.val")
    assert found("ESP293", source.replace("load(n", "load(self, n")) == ["self." + SET]
