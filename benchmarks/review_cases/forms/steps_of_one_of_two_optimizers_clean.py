import torch
from torch import nn
class Gan:
    def __init__(self):
        self.made, self.judged = nn.Linear(4, 4), nn.Linear(4, 1)
        self.optimizers = {
            "made": torch.optim.Adam(self.made.parameters()),
            "judged": torch.optim.Adam(self.judged.parameters()),
        }

    def judge(self, real):
        self.optimizers["judged"].zero_grad()
        loss = self.judged(self.made(torch.randn(8, 4)).detach()).mean() - self.judged(real).mean()
        loss.backward()
        self.optimizers["judged"].step()

    def make(self):
        self.optimizers["made"].zero_grad()
        loss = -self.judged(self.made(torch.randn(8, 4))).mean()
        loss.backward()
        self.optimizers["made"].step()


def train(loader):
    gan = Gan()
    for real in loader:
        gan.judge(real)
        gan.make()
