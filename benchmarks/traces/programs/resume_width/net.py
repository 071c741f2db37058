from torch import nn


class Regressor(nn.Module):
    def __init__(self, inputs=8, width=32, depth=2):
        super().__init__()
        layers, size = [], inputs
        for _ in range(depth):
            layers += [nn.Linear(size, width), nn.SiLU()]
            size = width
        self.trunk = nn.Sequential(*layers)
        self.readout = nn.Linear(width, 1)

    def forward(self, x):
        return self.readout(self.trunk(x)).squeeze(-1)
