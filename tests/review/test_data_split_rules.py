"""Cases of ESP229, ESP230 and ESP233: statistics of test rows, bytes that wrap, splits that differ by rank."""

from __future__ import annotations

import pytest

HEAD = """
    import numpy as np
    import torch
    from sklearn.decomposition import PCA
    from sklearn.model_selection import KFold, train_test_split
    from sklearn.preprocessing import LabelEncoder, MinMaxScaler, Normalizer, StandardScaler
    from torch.utils.data import Dataset, TensorDataset, random_split
    """
FITS = [
    "x = StandardScaler().fit_transform(x)",
    "scaler = MinMaxScaler()\n        x = scaler.fit_transform(x)",
    "scaler = StandardScaler()\n        scaler.fit(x)\n        x = scaler.transform(x)",
    "x = (x - x.mean(0)) / x.std(0)",
    "mean, std = x.mean(axis=0), x.std(axis=0)\n        x = (x - mean) / (std + 1e-8)",
    "x = (x - x.min()) / (x.max() - x.min())",
    "x = PCA(8).fit_transform(x)",
]
SPLITS = [
    "train, test = train_test_split(x, test_size=0.2)",
    "n = int(0.8 * len(x))\n        train, test = x[:n], x[n:]",
    "data = TensorDataset(torch.tensor(x), torch.tensor(y))\n        train, test = random_split(data, [80, 20])",
    "for train, test in KFold(5).split(x): pass",
]


def prepared(fit, split):
    return HEAD + f"\n    def prepare(x, y):\n        {fit}\n        {split}\n        return train, test\n"


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("fit", FITS)
def test_statistics_of_all_rows_before_a_split_are_reported(found, fit, split):
    assert len(found("ESP229", prepared(fit, split))) == 1


@pytest.mark.parametrize(
    "fit",
    [
        "y = LabelEncoder().fit_transform(y)",
        "x = Normalizer().fit_transform(x)",
        "x = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)",
        "x = (x - mean) / std",
        "x = x / 255",
        "n = int(0.8 * len(x))\n        scaler = StandardScaler().fit(x[:n])\n        x = scaler.transform(x)",
    ],
)
def test_other_scalings_are_not_reported(found, fit):
    assert found("ESP229", prepared(fit, SPLITS[0])) == []


def test_rows_that_are_not_split_are_not_reported(found):
    assert found("ESP229", prepared(FITS[0], "train = test = x[:100]")) == []
    assert (
        found("ESP229", prepared("train, test = train_test_split(x)", "train = StandardScaler().fit_transform(x)"))
        == []
    )


def test_a_dataset_that_scales_itself_and_is_split_is_reported(found):
    source = (
        HEAD
        + """
    class Series(Dataset):
        def __init__(self, values{more}):
            self.scaler = MinMaxScaler()
            self.values = {value}

        def __len__(self):
            return len(self.values)

    def loaders(values):
        data = Series(values)
        return random_split(data, [80, 20])
    """
    )
    assert len(found("ESP229", source.format(more="", value="self.scaler.fit_transform(values)"))) == 1
    assert found("ESP229", source.format(more="", value="values")) == []


def test_rows_scaled_by_the_function_that_loads_them_are_reported(found):
    head = HEAD.rstrip(" ")
    load = "    def load(path):\n        x = np.load(path)\n        return StandardScaler().fit_transform(x)\n"
    main = (
        "    from data import load\n\n    def main(path):\n        x = load(path)\n        return train_test_split(x)\n"
    )
    files = {"data.py": f"{head}\n{load}", "main.py": f"{head}\n{main}"}
    assert found("ESP229", files) == ["return train_test_split(x)"]


IMAGES = """
    import cv2
    import numpy as np
    import torch
    from PIL import Image
    from torchvision.io import read_image

    def load(path):
        return np.asarray(Image.open(path).convert("RGB"))

    def change(p, q):
        {lines}
        return result
    """


@pytest.mark.parametrize(
    "lines",
    [
        "a, b = read_image(p), read_image(q)\n        result = b - a",
        "a = cv2.imread(p)\n        b = cv2.imread(q)\n        result = np.abs(a - b)",
        "a = load(p)\n        b = load(q)\n        result = (a + b) / 2",
        "a = torch.from_numpy(load(p)).permute(2, 0, 1)\n        result = a - torch.from_numpy(load(q))",
        "a = np.array(p, dtype=np.uint8)\n        result = a[1:] - a[:-1]",
        "a = cv2.imread(p)\n        a -= cv2.imread(q)\n        result = a",
    ],
)
def test_sums_and_differences_of_bytes_are_reported(found, lines):
    assert len(found("ESP230", IMAGES.format(lines=lines))) == 1


@pytest.mark.parametrize(
    "lines",
    [
        "a, b = read_image(p).float(), read_image(q)\n        result = b - a",
        "a = cv2.imread(p).astype(np.int16)\n        result = a - cv2.imread(q)",
        "a = np.asarray(Image.open(p), dtype=np.float32)\n        result = a - load(q)",
        "a = load(p)\n        a = a / 255.0\n        result = a - load(q)",
        "a = load(p)\n        result = a - 1",
        "a = np.array(Image.open(p).convert('F'))\n        result = a - load(q)",
        "result = load(p) + np.int32(40).astype(np.uint8)",
        "result = cv2.dilate(load(p), None) - load(p)",
    ],
)
def test_converted_values_are_not_reported(found, lines):
    assert found("ESP230", IMAGES.format(lines=lines)) == []


RANKS = """
    import torch
    import torch.distributed as dist
    from torch.utils.data import random_split

    def main(data):
        {first}
        dist.init_process_group("nccl")
        return random_split(data, [80, 20]{more})
    """


def test_an_unseeded_split_of_several_ranks_is_reported(found):
    assert len(found("ESP233", RANKS.format(first="pass", more=""))) == 1


@pytest.mark.parametrize(
    ("first", "more"),
    [("torch.manual_seed(0)", ""), ("set_seed(1)", ""), ("pass", ", generator=generator"), ("pass", ", g")],
)
def test_a_seeded_split_is_not_reported(found, first, more):
    assert found("ESP233", RANKS.format(first=first, more=more)) == []


def test_a_split_in_one_process_is_not_reported(found):
    assert found("ESP233", RANKS.format(first="pass", more="").replace('dist.init_process_group("nccl")', "pass")) == []
