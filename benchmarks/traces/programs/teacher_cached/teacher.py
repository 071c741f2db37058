import torch
from torch import nn


class Teacher(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n, 16), nn.GELU(), nn.Linear(16, 6))

    @torch.inference_mode()
    def targets(self, x):
        return self.body(x).softmax(-1)


class Cache:
    def __init__(self, teacher):
        self.teacher, self.store = teacher, {}

    def get(self, key, x):
        if key not in self.store:
            self.store[key] = self.teacher.targets(x)
        return self.store[key]
