import torch
from torch import nn


def evaluate(model, inputs, targets):
    """Error in degrees on one held-out batch."""
    predicted = model(inputs)  # expect: ESP102
    return (predicted - targets).abs().mean().item()


def train(loader, held_out):
    model = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.SiLU(), nn.Linear(64, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    model.train()
    for inputs, targets in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.smooth_l1_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
    inputs, targets = held_out
    print(f"{evaluate(model, inputs, targets):.2f} degrees")
    return model
