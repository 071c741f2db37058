import dataclasses
import os
import tempfile

import torch


@dataclasses.dataclass
class TrainConfig:
    lr: float = 1e-3


def save(path):
    torch.save({"config": TrainConfig(), "w": torch.zeros(3)}, path)


path = os.path.join(tempfile.gettempdir(), "esper_cfg.pt")
save(path)
ckpt = torch.load(path, map_location="cpu")
