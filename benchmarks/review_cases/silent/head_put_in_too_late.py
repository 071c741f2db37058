import torch
from torch import nn
from torchvision.models import resnet50


def fine_tune(loader, kinds, epochs=4):
    model = resnet50(weights="DEFAULT")
    for weight in model.parameters():
        weight.requires_grad = False
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    model.fc = nn.Linear(model.fc.in_features, kinds)  # expect: ESP218
    model.train()  # expect: ESP249
    for _ in range(epochs):
        for photos, names in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(photos), names).backward()
            optimizer.step()
    return model
