import torch
import torch.nn as nn
from torch.optim import Muon


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c1, self.c2 = (nn.Conv2d(c, c, 3, padding=1, bias=False) for _ in range(2))
        self.b1, self.b2 = nn.BatchNorm2d(c), nn.BatchNorm2d(c)

    def forward(self, x):
        return torch.relu(x + self.b2(self.c2(torch.relu(self.b1(self.c1(x))))))


class PolicyNet(nn.Module):
    def __init__(self, planes=18, c=128, depth=10, moves=1858):
        super().__init__()
        self.stem = nn.Conv2d(planes, c, 3, padding=1)
        self.tower = nn.Sequential(*[Residual(c) for _ in range(depth)])
        self.squeeze = nn.Conv2d(c, 32, 1)
        self.policy = nn.Linear(32 * 64, moves)

    def forward(self, board, legal):
        x = torch.relu(self.squeeze(self.tower(self.stem(board))))
        logits = self.policy(x.flatten(1)).masked_fill(~legal, -1e4)
        return torch.softmax(logits, dim=-1)  # expect: ESP210 @log


def soft_cross_entropy(probs, visits):
    wanted = visits / visits.sum(dim=1, keepdim=True).clamp(min=1)
    return -(wanted * torch.log(probs)).sum(dim=1).mean()  # expect: ESP210 @log


def train(net, loader, device, epochs=3):
    net = net.to(device)
    optimizer = Muon(net.parameters(), lr=0.02, momentum=0.95, weight_decay=0.01)  # expect: ESP508
    for _ in range(epochs):
        net.train()
        for board, legal, visits in loader:
            board, legal, visits = board.to(device), legal.to(device), visits.to(device)
            optimizer.zero_grad()
            loss = soft_cross_entropy(net(board, legal), visits)
            loss.backward()
            optimizer.step()
