import torch
from torch import nn

from vit_small import ViT

SIDE = 48


def step(model, opt):
    loss = nn.functional.cross_entropy(model(torch.rand(2, 3, SIDE, SIDE)), torch.tensor([0, 2]))
    opt.zero_grad()
    loss.backward()
    opt.step()


if __name__ == "__main__":
    model = ViT()
    step(model, torch.optim.AdamW(model.parameters()))
