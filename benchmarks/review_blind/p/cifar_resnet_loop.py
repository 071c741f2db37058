"""Small ResNet on CIFAR-10, single GPU."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.drop = nn.Dropout2d(0.1)
        self.short = nn.Identity()
        if stride != 1 or cin != cout:
            self.short = nn.Sequential(
                nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        h = self.bn2(self.conv2(self.drop(h)))
        return F.relu(h + self.short(x))


class ResNet(nn.Module):
    def __init__(self, width=32, num_classes=10):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.body = nn.Sequential(
            BasicBlock(width, width), BasicBlock(width, width * 2, 2),
            BasicBlock(width * 2, width * 4, 2))
        self.fc = nn.Linear(width * 4, num_classes)

    def forward(self, x):
        h = self.body(self.stem(x))
        return self.fc(h.mean(dim=(2, 3)))


def loaders(root, bs):
    norm = transforms.Normalize((0.4914, 0.4822, 0.4465), (0.247, 0.243, 0.261))
    tf_train = transforms.Compose([transforms.RandomCrop(32, 4),
                                   transforms.RandomHorizontalFlip(),
                                   transforms.ToTensor(), norm])
    tf_test = transforms.Compose([transforms.ToTensor(), norm])
    tr = datasets.CIFAR10(root, True, tf_train, download=True)
    te = datasets.CIFAR10(root, False, tf_test, download=True)
    return (DataLoader(tr, bs, shuffle=True, num_workers=4, pin_memory=True, drop_last=True),
            DataLoader(te, 300, num_workers=4, pin_memory=True))


def train_epoch(model, loader, opt, device):
    running = torch.zeros((), device=device)
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        running += loss.detach()
    return (running / len(loader)).item()


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    acc = torch.zeros((), device=device)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        acc += (model(x).argmax(dim=1) == y).float().mean()
    return (acc / len(loader)).item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data", default="./data")
    p.add_argument("--epochs", type=int, default=60)
    p.add_argument("--lr", type=float, default=0.1)
    args = p.parse_args()
    device = torch.device("cuda")
    torch.manual_seed(0)
    train_loader, test_loader = loaders(args.data, 128)
    model = ResNet().to(device)
    opt = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=5e-4, nesterov=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    model.train()
    for epoch in range(args.epochs):
        t0 = time.time()
        loss = train_epoch(model, train_loader, opt, device)
        acc = evaluate(model, test_loader, device)
        sched.step()
        print(f"{epoch:3d} loss {loss:.4f} acc {acc:.4f} {time.time() - t0:.1f}s")


if __name__ == "__main__":
    main()
