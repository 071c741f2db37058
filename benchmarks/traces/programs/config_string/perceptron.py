import torch
from torch import nn

from settings_ini import read


class Perceptron(nn.Module):
    def __init__(self, section):
        super().__init__()
        self.inp = nn.Linear(int(section["inputs"]), section["hidden"])
        self.out = nn.Linear(int(section["hidden"]), 1)

    def forward(self, x):
        return self.out(self.inp(x).sigmoid())


if __name__ == "__main__":
    config = read()
    model = Perceptron(config["model"])
    print(model(torch.ones(1, 4)))
