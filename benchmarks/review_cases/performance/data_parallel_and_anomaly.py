#!/usr/bin/env python
import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms

parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.add_argument("--arch", default="densenet121")
parser.add_argument("-b", "--batch-size", type=int, default=128)
parser.add_argument("--epochs", type=int, default=60)


def main():
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.autograd.set_detect_anomaly(True)  # expect: ESP404

    tf = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    train_set = datasets.ImageFolder(args.data, tf)
    loader = DataLoader(train_set, args.batch_size, shuffle=True, num_workers=16, pin_memory=True, drop_last=True)

    model = models.get_model(args.arch, num_classes=len(train_set.classes))
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)  # expect: ESP403
    model = model.cuda()
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    for epoch in range(args.epochs):
        model.train()
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 50 == 0:
                print(f"{epoch} {i} {loss.item():.3f}")


if __name__ == "__main__":
    main()
