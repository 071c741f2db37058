import torch
import torch.nn as nn
from sklearn.metrics import roc_auc_score


class FraudNet(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def train_one_epoch(model, loader, optimizer, device):
    """Train and also report the AUC on the training batches."""
    model.train()
    criterion = nn.BCEWithLogitsLoss()
    all_logits, all_targets = [], []
    for features, target in loader:
        features, target = features.to(device), target.to(device)
        logits = model(features)
        loss = criterion(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        all_logits.append(logits)  # expect: ESP303|ESP301
        all_targets.append(target)
    scores = torch.cat(all_logits).detach().cpu().numpy()
    return roc_auc_score(torch.cat(all_targets).cpu().numpy(), scores)


def fit(model, train_loader, device, epochs=10):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        print(epoch, train_one_epoch(model.to(device), train_loader, optimizer, device))
