import torch
from torch.utils.data import DataLoader

from records import Records, write_records


class Pipeline:
    def __init__(self, n=20, workers=2):
        self.data = Records(write_records(n), n)
        self.workers = workers

    def __iter__(self):
        yield from DataLoader(
            self.data, batch_size=5, num_workers=self.workers, multiprocessing_context="spawn"
        )


def main():
    model = torch.nn.Linear(3, 1)
    for x, y in Pipeline():
        print((model(x).squeeze(1) - y).abs().mean())


if __name__ == "__main__":
    main()
