"""Trains the network and prints how it gets on."""

from __future__ import annotations

import torch
from data import loaders
from evaluate import accuracy
from model import Classifier, smoothed_loss


def train(epochs: int = 3, learning_rate: float = 0.05) -> float:
    """Train a new model and return its accuracy on the validation samples."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Classifier().to(device)
    compiled = torch.compile(model, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    training, validation = loaders()
    history = []
    for epoch in range(epochs):
        for images, labels in training:
            loss = smoothed_loss(compiled(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            history.append(loss)
        mean = sum(history) / len(history)
        print(f"epoch {epoch}: loss {mean:.3f}, accuracy {accuracy(model, validation, device):.3f}")
    return accuracy(model, validation, device)


if __name__ == "__main__":
    train()
