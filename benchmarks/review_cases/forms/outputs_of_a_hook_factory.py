import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.encoder(x))


class Recorder:
    def __init__(self, net):
        self.seen = {}
        for name, layer in net.named_children():
            layer.register_forward_hook(self.hook(name))

    def hook(self, name):
        def keep(module, inputs, output):
            self.seen.setdefault(name, []).append(output)  # expect: ESP303
        return keep


def train(loader):
    net = Net()
    recorder = Recorder(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return recorder.seen
