"""Training and validation in one function, phase by phase, with the best weights kept."""

import copy

import torch
from torch import nn


def fit(model, loaders, sizes, criterion, optimizer, scheduler, device, epochs=25):
    best, best_accuracy = copy.deepcopy(model.state_dict()), 0.0
    for epoch in range(epochs):
        for phase in ["train", "val"]:
            if phase == "train":
                model.train()
            else:
                model.eval()
            running_loss, running_right = torch.zeros((), device=device), torch.zeros((), device=device)
            for inputs, labels in loaders[phase]:
                inputs, labels = inputs.to(device), labels.to(device)
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    outputs = model(inputs)
                    predictions = outputs.argmax(1)
                    loss = criterion(outputs, labels)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                running_loss += loss.detach() * inputs.size(0)
                running_right += (predictions == labels).sum()
            if phase == "train":
                scheduler.step()
            accuracy = running_right.item() / sizes[phase]
            print(f"{epoch} {phase} {running_loss.item() / sizes[phase]:.4f} {accuracy:.4f}")
            if phase == "val" and accuracy > best_accuracy:
                best, best_accuracy = copy.deepcopy(model.state_dict()), accuracy
    model.load_state_dict(best)
    return model


def extract(model, loader, device):
    model.eval()
    features, labels = [], []
    with torch.inference_mode():
        for inputs, targets in loader:
            features.append(model(inputs.to(device)))
            labels.append(targets)
    return torch.cat(features).cpu(), torch.cat(labels)


def attack(model, loader, criterion, epsilon):
    model.eval()
    right = 0
    for inputs, labels in loader:
        inputs.requires_grad_(True)
        loss = criterion(model(inputs), labels)
        model.zero_grad()
        loss.backward()
        perturbed = (inputs + epsilon * inputs.grad.sign()).clamp(0, 1)
        right += (model(perturbed).argmax(1) == labels).sum().item()
    return right


def make(classes):
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Dropout(), nn.Linear(128, classes))
    return model, nn.CrossEntropyLoss()
