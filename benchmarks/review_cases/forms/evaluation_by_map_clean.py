import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x)


def count_all(batches):
    model = Net()
    model.load_state_dict(torch.load("net.pt", weights_only=True))
    model.eval()
    torch.set_grad_enabled(False)
    counts = torch.zeros(3)
    for scores in map(model, batches):
        counts += scores.argmax(1).bincount(minlength=3)
    return counts
