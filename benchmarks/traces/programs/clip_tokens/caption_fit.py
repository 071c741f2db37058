import torch
from torch import nn

from caption import Captioner


class Objective:
    def __init__(self, pad=0):
        self.ce = nn.CrossEntropyLoss(ignore_index=pad)

    def __call__(self, logits, words):
        return self.ce(logits, words)


if __name__ == "__main__":
    model, objective = Captioner(), Objective()
    images, words = torch.randn(5, 10), torch.randint(1, 20, (5, 7))
    objective(model(images, words), words).backward()
