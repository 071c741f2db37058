import torch
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return {"audio": torch.randn(1, 100 + 10 * i), "label": i}


for batch in DataLoader(Clips(), batch_size=3):
    print(batch["audio"].shape)
