"""Dataset of labelled raw images."""
from pathlib import Path

from torch.utils.data import Dataset

from images import read_raw


class RawImages(Dataset):
    """Images in a folder; the label is the index modulo the number of classes."""

    def __init__(self, folder, classes, augment=None):
        self.paths = sorted(Path(folder).glob("*.raw"))
        self.classes = classes
        self.augment = augment

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = read_raw(self.paths[index])
        if self.augment is not None:
            image = self.augment(image)
        return {"image": image, "label": index % self.classes}
