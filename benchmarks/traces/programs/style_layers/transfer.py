import torch
from torch import nn

from style import StyleLoss


class Extractor(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 8, 3)

    def forward(self, x):
        a = self.a(x).relu()
        return a, self.b(a).relu()


def optimise(steps=2):
    net, terms = Extractor(), [StyleLoss(1.0), StyleLoss(0.5)]
    image = torch.rand(1, 3, 12, 12, requires_grad=True)
    opt = torch.optim.Adam([image], lr=0.02)
    for _ in range(steps):
        total = 0.0
        for term, feature in zip(terms, net(image)):
            total = total + term(feature)
        opt.zero_grad()
        total.backward()
        opt.step()


if __name__ == "__main__":
    optimise()
