import torch
import torch.nn as nn
import torch.nn.functional as F

from branches import CellBranch, DrugBranch


class ResponseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = CellBranch()
        self.drug = DrugBranch()
        self.joint = nn.Sequential(
            nn.Linear(256, 64),  # expect: ESP205 @width
            nn.ReLU(),
            nn.Linear(64, 1),
        )

    def forward(self, profile, fingerprint):
        both = torch.cat([self.cell(profile), self.drug(fingerprint)], dim=1)
        return self.joint(both).squeeze(1)  # expect: ESP205 @width


def train(loader, epochs=30):
    net = ResponseNet()
    opt = torch.optim.Adam(net.parameters(), lr=1e-4)
    for epoch in range(epochs):
        net.train()
        for profile, fingerprint, ic50 in loader:
            opt.zero_grad()
            loss = F.mse_loss(net(profile, fingerprint), ic50.float())
            loss.backward()
            opt.step()
    return net
