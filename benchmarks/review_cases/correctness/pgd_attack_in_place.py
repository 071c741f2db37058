"""Adversarial training, after Madry et al."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def pgd(model, images, labels, eps=8 / 255, alpha=2 / 255, steps=10):
    delta = torch.zeros_like(images, requires_grad=True)
    for _ in range(steps):
        loss = F.cross_entropy(model(images + delta), labels)
        (grad,) = torch.autograd.grad(loss, delta)
        delta += alpha * grad.sign()  # expect: ESP106
        delta.data.clamp_(-eps, eps)
    return (images + delta).clamp(0, 1).detach()


def train_epoch(model, loader, optimizer, device):
    model.train()
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        adversarial = pgd(model, images, labels)
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(adversarial), labels)
        loss.backward()
        optimizer.step()


def robust_accuracy(model, loader, device):
    model.eval()
    hits = torch.zeros((), device=device)
    n = 0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        adversarial = pgd(model, images, labels)
        with torch.no_grad():
            hits += (model(adversarial).argmax(1) == labels).sum()
        n += len(labels)
    return hits.item() / n


def main(model: nn.Module, train_loader, test_loader, epochs=20, device="cuda"):
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(epochs):
        train_epoch(model, train_loader, optimizer, device)
        print(epoch, robust_accuracy(model, test_loader, device))
