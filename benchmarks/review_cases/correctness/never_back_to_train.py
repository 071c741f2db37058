"""EfficientNet on plant diseases; keeps the best checkpoint."""
import copy
import time

import torch
import torch.nn as nn
from torch.optim import lr_scheduler
from torchvision import models


def validate(model, loader, criterion, device):
    model.eval()
    loss_sum, hits, seen = 0.0, 0, 0
    with torch.no_grad():
        for inputs, labels in loader:
            inputs, labels = inputs.to(device), labels.to(device)
            outputs = model(inputs)
            loss_sum += criterion(outputs, labels).item() * inputs.size(0)  # allow: ESP305
            hits += (outputs.argmax(1) == labels).sum().item()  # allow: ESP305
            seen += inputs.size(0)
    return loss_sum / seen, hits / seen


def train_model(dataloaders, num_epochs=25, device="cuda"):
    model = models.efficientnet_b0(weights="DEFAULT")
    model.classifier[1] = nn.Linear(model.classifier[1].in_features, 38)
    model = model.to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scheduler = lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.1)

    since, best_acc, best = time.time(), 0.0, None
    model.train()
    for epoch in range(num_epochs):  # expect: ESP103
        for inputs, labels in dataloaders["train"]:
            inputs, labels = inputs.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()
        scheduler.step()

        val_loss, val_acc = validate(model, dataloaders["val"], criterion, device)
        print(f"{epoch} val loss {val_loss:.4f} acc {val_acc:.4f}")
        if val_acc > best_acc:
            best_acc, best = val_acc, copy.deepcopy(model.state_dict())
    print(f"done in {time.time() - since:.0f}s, best {best_acc:.4f}")
    model.load_state_dict(best)
    return model
