import torch
import torch.nn as nn
from torch import Tensor


@torch.library.custom_op("audio::gain_", mutates_args={"x"})
def gain_(x: Tensor, db: float) -> Tensor:
    x.mul_(10 ** (db / 20))
    return x  # expect: ESP507


@torch.library.custom_op("audio::frame", mutates_args=())
def frame(x: Tensor, size: int) -> Tensor:
    if x.size(-1) % size:
        x = torch.nn.functional.pad(x, (0, size - x.size(-1) % size))
    return x.view(*x.shape[:-1], -1, size)  # expect: ESP507


@frame.register_fake
def _(x, size):
    n = -(-x.size(-1) // size)
    return x.new_empty(*x.shape[:-1], n, size)


class Loudness(nn.Module):
    def __init__(self, size=400):
        super().__init__()
        self.size = size
        self.db = nn.Parameter(torch.zeros(()))

    def forward(self, wave):
        frames = torch.ops.audio.frame(wave, self.size)
        return (frames.pow(2).mean(-1) + 1e-8).log10() * 10 + self.db


def measure(wave):
    model = torch.compile(Loudness())
    return model(gain_(wave.clone(), -6.0))
