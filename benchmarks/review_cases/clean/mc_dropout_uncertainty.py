"""Monte Carlo dropout: dropout stays on at prediction time, everything else is in evaluation mode."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BayesianCNN(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 32, 5), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(64 * 4 * 4, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, classes))

    def forward(self, x):
        return self.head(self.features(x))


def enable_dropout(model):
    for m in model.modules():
        if isinstance(m, nn.Dropout):
            m.train()


@torch.no_grad()
def predictive(model, x, samples=30):
    model.eval()
    enable_dropout(model)
    probs = torch.stack([F.softmax(model(x), dim=-1) for _ in range(samples)])
    mean = probs.mean(0)
    entropy = -(mean * (mean + 1e-12).log()).sum(-1)
    return mean, entropy


def train(model, loader, val, device, epochs=20):
    model.to(device)
    opt = torch.optim.Adam(model.parameters(), weight_decay=1e-5)
    for epoch in range(epochs):
        model.train()
        for x, y in loader:
            opt.zero_grad()
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            opt.step()
        mean, entropy = predictive(model, val.to(device))
        print(epoch, entropy.mean().item(), mean.shape)
