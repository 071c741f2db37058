"""Train the tabular baseline."""
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from config import load_config
from model import Classifier


def build_loader(data):
    features = torch.randn(data.rows, data.features)
    labels = torch.randint(0, data.classes, (data.rows,))
    return DataLoader(TensorDataset(features, labels), batch_size=data.batch_size, shuffle=True)


def build_optimizer(model, optim):
    decay, no_decay = [], []
    for name, parameter in model.named_parameters():
        (no_decay if name.endswith("bias") else decay).append(parameter)
    groups = [
        {"params": decay, "weight_decay": optim.weight_decay},
        {"params": no_decay, "weight_decay": 0.0},
    ]
    if optim.name == "adamw":
        return torch.optim.AdamW(groups, lr=optim.lr)
    return torch.optim.SGD(groups, lr=optim.lr, momentum=0.9)


def main():
    torch.manual_seed(0)
    config = load_config(Path(__file__).parent / "configs" / "base.yaml")
    loader = build_loader(config.data)
    model = Classifier(config.data.features, config.data.classes, **config.model)
    optimizer = build_optimizer(model, config.optim)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(config.epochs):
        for rows, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(rows), labels)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
