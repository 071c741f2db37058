"""Cases of ESP125 and ESP264: order and range of image transforms."""

from __future__ import annotations

import pytest

PIPELINE = """
import torch
from torchvision import transforms
from torchvision.transforms import Compose, v2

MEAN, STD = {mean}, [1.0, 1.0, 1.0]
norm = transforms.Normalize(MEAN, STD)
steps = [{steps}]
data = transforms.Compose(steps)
"""
IMAGENET, BYTES = "[0.485, 0.456, 0.406]", "[123.675, 116.28, 103.53]"


def reported(rule, found, steps, mean=IMAGENET):
    return found(rule, PIPELINE.format(mean=mean, steps=steps))


@pytest.mark.parametrize(
    "steps",
    [
        "transforms.Resize(8), transforms.Normalize(MEAN, STD), transforms.ToTensor()",
        "norm, transforms.ToTensor()",
        "transforms.RandomErasing(), transforms.ToTensor()",
        "v2.Normalize(MEAN, STD), v2.PILToTensor()",
    ],
)
def test_a_transform_for_tensors_before_there_is_one_is_reported(steps, found):
    assert len(reported("ESP125", found, steps)) == 1


@pytest.mark.parametrize(
    "steps",
    [
        "transforms.ToTensor(), transforms.Normalize(MEAN, STD)",
        "norm",
        "Decode(), norm, transforms.ToTensor()",
        "transforms.ToTensor(), norm, transforms.ToPILImage(), transforms.ToTensor()",
        "norm, transforms.ToPILImage(), transforms.ToTensor()",
    ],
)
def test_pipelines_that_make_a_tensor_first_are_right(steps, found):
    assert reported("ESP125", found, steps) == []


@pytest.mark.parametrize(
    ("steps", "mean"),
    [
        ("transforms.ToTensor(), transforms.Normalize(MEAN, STD)", BYTES),
        ("transforms.Resize(8), transforms.ToTensor(), norm", BYTES),
        ("v2.ToImage(), v2.ToDtype(torch.float32), v2.Normalize(MEAN, STD)", IMAGENET),
        (
            "v2.PILToTensor(), v2.ToDtype(torch.float32, False), v2.Resize(8), v2.Normalize(mean=MEAN, std=STD)",
            IMAGENET,
        ),
    ],
)
def test_statistics_of_another_range_are_reported(steps, mean, found):
    assert len(reported("ESP264", found, steps, mean)) == 1


@pytest.mark.parametrize(
    ("steps", "mean"),
    [
        ("transforms.ToTensor(), norm", IMAGENET),
        ("v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)", IMAGENET),
        ("v2.ToImage(), v2.ToDtype(torch.float32), v2.Normalize(MEAN, STD)", BYTES),
        ("transforms.ToTensor(), transforms.Lambda(lambda x: x * 255), norm", BYTES),
        ("transforms.ToTensor(), Scale(), norm", BYTES),
        ("v2.ToImage(), v2.ToDtype(torch.float32), v2.Normalize(MEAN, STD)", "[0.0, 0.0, 0.0]"),
    ],
)
def test_statistics_of_the_same_range_are_right(steps, mean, found):
    assert reported("ESP264", found, steps, mean) == []
