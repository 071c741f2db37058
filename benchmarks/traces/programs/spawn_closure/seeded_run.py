import torch
from torch.utils.data import DataLoader, TensorDataset

from seeds import seeder


def batches(seed):
    data = TensorDataset(torch.arange(12.0))
    return DataLoader(
        data, batch_size=4, num_workers=1, worker_init_fn=seeder(seed), multiprocessing_context="spawn"
    )


if __name__ == "__main__":
    for (x,) in batches(7):
        print(x.sum())
