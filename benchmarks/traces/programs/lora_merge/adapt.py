import torch
from torch import nn

from lora import LoRA


def adapt(model):
    for name, child in model.named_children():
        if isinstance(child, nn.Linear):
            setattr(model, name, LoRA(child))
    return model


if __name__ == "__main__":
    net = adapt(nn.Sequential(nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 2)))
    print(net(torch.randn(3, 12)))
