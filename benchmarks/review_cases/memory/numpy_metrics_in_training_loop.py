import numpy as np
import torch
import torch.nn as nn
from sklearn.metrics import accuracy_score
from torch.utils.data import DataLoader


class SpectroCNN(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        self.c = nn.Linear(64, classes)

    def forward(self, x):
        return self.c(self.f(x))


def fit(dataset, classes, epochs=30):
    device = torch.device("cuda:0")
    net = SpectroCNN(classes).to(device)
    loader = DataLoader(dataset, 64, shuffle=True, num_workers=8, pin_memory=True)
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    ce = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        net.train()
        accs = []
        for spec, label in loader:
            spec, label = spec.to(device, non_blocking=True), label.to(device, non_blocking=True)
            logits = net(spec)
            loss = ce(logits, label)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            preds = logits.argmax(1).detach().cpu().numpy()  # expect: ESP305
            accs.append(accuracy_score(label.cpu().numpy(), preds))  # allow: ESP305
        print(epoch, np.mean(accs))
