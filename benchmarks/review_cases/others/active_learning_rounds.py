import random

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Subset


class DefectNet(nn.Module):
    def __init__(self, classes=6):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 32, 7, 4, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.tail = nn.Sequential(nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(64, classes)

    def forward(self, wafer):
        return self.fc(self.tail(self.stem(wafer)))


@torch.inference_mode()
def least_confident(net, dataset, pool, device, n):
    net.eval()
    margin = []
    for wafers, _ in DataLoader(Subset(dataset, pool), 256, num_workers=4, pin_memory=True):
        top = net(wafers.to(device)).softmax(1).topk(2, dim=1).values
        margin.append(top[:, 0] - top[:, 1])
    order = torch.cat(margin).argsort()[:n].tolist()
    return [pool[i] for i in order]


def learn(net, dataset, labelled, device, epochs):
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    ce = nn.CrossEntropyLoss()
    torch.autograd.set_detect_anomaly(True)  # expect: ESP404
    net.train()
    for _ in range(epochs):
        for wafers, defect in DataLoader(Subset(dataset, labelled), 64, shuffle=True, num_workers=4, pin_memory=True):
            net.to(device)  # expect: ESP402
            opt.zero_grad()
            loss = ce(net(wafers.to(device, non_blocking=True)), defect.to(device, non_blocking=True))
            loss.backward()
            opt.step()


def main(dataset, rounds=10, budget=100):
    device = torch.device("cuda:0")
    pool = list(range(len(dataset)))
    random.shuffle(pool)
    labelled, pool = pool[:budget], pool[budget:]
    net = DefectNet().to(device)
    for _ in range(rounds):
        learn(net, dataset, labelled, device, epochs=15)
        chosen = set(least_confident(net, dataset, pool, device, budget))
        labelled += chosen
        pool = [i for i in pool if i not in chosen]
    torch.save(net.state_dict(), "defects.pt")
