from dataclasses import dataclass

import torch


@dataclass
class Hyper:
    width: int = 16
    dropout: float = 0.1
    rate: float = 1e-3


class SnapshotStore:
    def __init__(self, folder):
        self.folder = folder

    def write(self, model, hyper, step):
        record = {"weights": model.state_dict(), "hyper": hyper, "step": step}
        torch.save(record, self.folder / f"{step:06d}.pt")

    def latest(self):
        path = sorted(self.folder.glob("*.pt"))[-1]
        return torch.load(path, map_location="cpu")
