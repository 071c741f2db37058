# After yanx27/Pointnet_Pointnet2_pytorch issue 30: the label loss was negative.
import torch
import torch.nn.functional as F
from torch import nn


class PointClassifier(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.lift = nn.Conv1d(3, 64, 1)
        self.hidden = nn.Linear(64, 32)
        self.kinds = nn.Linear(32, kinds)

    def forward(self, points):
        features = F.relu(self.lift(points)).amax(2)
        scores = self.kinds(F.relu(self.hidden(features)))
        return scores, features


def fit(loader, kinds, device):
    model = PointClassifier(kinds).to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(20):
        for points, labels in loader:
            points, labels = points.to(device), labels.to(device)
            scores, _ = model(points)
            loss = F.nll_loss(scores, labels)  # expect: ESP219
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model
