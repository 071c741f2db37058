"""Cases of ESP254 and ESP255: augmented data that is held out, and training data in order."""

from __future__ import annotations

import pytest

SPLIT = """
    import torch
    from torch.utils.data import random_split, Subset, DataLoader
    from torchvision import datasets, transforms as T

    def augmentation(size):
        return T.Compose([T.RandomResizedCrop(size), T.ToTensor()])

    plain = T.Compose([T.Resize(224), T.ToTensor()])
    augment = T.Compose([T.RandomHorizontalFlip(), T.ToTensor()])
    full = {data}
    {split}
    """
FOLDER = 'datasets.ImageFolder("data", transform={transform})'
PARTS = "train_set, val_set = random_split(full, [0.9, 0.1])"


@pytest.mark.parametrize(
    ("transform", "split"),
    [
        ("augment", PARTS),
        ("augmentation(224)", PARTS),
        ("T.Compose([T.ColorJitter(0.2), T.ToTensor()])", PARTS),
        ("augment", "train_part, test_part = torch.utils.data.random_split(full, (900, 100))"),
        ("augment", "train_set = Subset(full, train_idx)\n    valid_set = Subset(full, valid_idx)"),
    ],
)
def test_a_held_out_part_of_augmented_data_is_reported(found, transform, split):
    assert len(found("ESP254", SPLIT.format(data=FOLDER.format(transform=transform), split=split))) == 1


def test_data_of_an_object_that_is_augmented_is_reported(found):
    source = """
        from torch.utils.data import random_split
        from torchvision.datasets import ImageFolder
        import torchvision.transforms as T

        class Data:
            def setup(self):
                self.transform = T.Compose([T.RandomResizedCrop(224), T.ToTensor()])
                full = ImageFolder(self.root, self.transform)
                self.train, self.val = random_split(full, [0.8, 0.2])
                {more}
        """
    assert len(found("ESP254", source.format(more="pass"))) == 1
    assert found("ESP254", source.format(more="self.val.dataset.transform = T.ToTensor()")) == []


@pytest.mark.parametrize(
    ("transform", "split"),
    [
        ("plain", PARTS),
        ("None", PARTS),
        ("augment", "train_a, train_b = random_split(full, [0.5, 0.5])"),
        ("augment", "train_set, _ = random_split(full, [0.9, 0.1])"),
        ("augment", PARTS + "\n    val_set.dataset.transform = plain"),
        ("augment", PARTS + "\n    val_set = WithTransform(val_set, plain)"),
    ],
)
def test_a_held_out_part_without_augmentation_is_not_reported(found, transform, split):
    assert found("ESP254", SPLIT.format(data=FOLDER.format(transform=transform), split=split)) == []


FIT = """
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, RandomSampler
    from torchvision import datasets

    class Pairs(Dataset):
        def __init__(self, rows):
            self.rows = rows

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, i):
            return self.rows[i]

    class Drawn(Pairs):
        def __getitem__(self, i):
            return self.rows[torch.randint(len(self.rows), (1,)).item()]

    class Flow(IterableDataset):
        def __iter__(self):
            yield from []

    def fit(model, rows, opt, train_set):
        data = {data}
        {loaders}
        for x, y in loader:
            opt.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            opt.step()
    """


@pytest.mark.parametrize(
    ("data", "loaders"),
    [
        ('datasets.CIFAR10("data")', "loader = DataLoader(data, batch_size=32)"),
        ("Pairs(rows)", "loader = DataLoader(data, 32, num_workers=4, pin_memory=True)"),
        ("TensorDataset(rows, rows)", "loader = DataLoader(dataset=data, batch_size=32, shuffle=False)"),
        ("None", "loader = DataLoader(train_set, batch_size=32)\n        val = DataLoader(val_set, 32, shuffle=True)"),
    ],
)
def test_training_data_in_order_is_reported(found, data, loaders):
    assert len(found("ESP255", FIT.format(data=data, loaders=loaders))) == 1


def test_a_loader_made_in_a_helper_is_followed(found):
    helper = '\n    def make():\n        return DataLoader(datasets.CIFAR10("data"), batch_size=32)\n    '
    assert len(found("ESP255", FIT.format(data="None", loaders="loader = make()") + helper)) == 1


@pytest.mark.parametrize(
    ("data", "loaders"),
    [
        ("Pairs(rows)", "loader = DataLoader(data, batch_size=32, shuffle=True)"),
        ("Pairs(rows)", "loader = DataLoader(data, batch_size=32, sampler=RandomSampler(data))"),
        ("Pairs(rows)", "loader = DataLoader(data, batch_size=len(data))"),
        ("Drawn(rows)", "loader = DataLoader(data, batch_size=32)"),
        ("Flow()", "loader = DataLoader(data, batch_size=32)"),
        ("rows", "loader = DataLoader(data, batch_size=32)"),
        ("TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))", "loader = DataLoader(data, batch_size=32)"),
        ("Pairs(rows)", "val_loader = loader = DataLoader(data, batch_size=32)"),
        ("Pairs(rows)", "options = {}\n        loader = DataLoader(data, **options)"),
    ],
)
def test_other_loaders_are_not_reported(found, data, loaders):
    assert found("ESP255", FIT.format(data=data, loaders=loaders)) == []
