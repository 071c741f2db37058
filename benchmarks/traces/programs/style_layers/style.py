import torch
from torch import nn


def gram(f):
    b, c, h, w = f.shape
    f = f.reshape(b, c, h * w)
    return f @ f.transpose(1, 2) / (c * h * w)


class StyleLoss(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight, self.target = weight, None

    def capture(self, f):
        self.target = gram(f).detach()

    def forward(self, f):
        if self.target is None:
            self.capture(f)
            return
        return self.weight * nn.functional.mse_loss(gram(f), self.target)
