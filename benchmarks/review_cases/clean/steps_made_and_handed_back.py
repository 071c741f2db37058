import torch
from torch import nn


def make_step():
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = torch.randn(32, 16)

    def step():
        clear(optimizer)
        loss = nn.functional.mse_loss(model(inputs), inputs)
        loss.backward()
        optimizer.step()

    return step


def clear(optimizer):
    optimizer.zero_grad(set_to_none=True)


def make_accumulating_step(model, optimizer, every):
    count = 0

    def step(inputs, targets):
        nonlocal count
        loss = nn.functional.mse_loss(model(inputs), targets) / every
        loss.backward()
        count += 1
        if count % every == 0:
            optimizer.step()
            optimizer.zero_grad()

    return step


def make_line_search(model, optimizer):
    def step(inputs, targets):
        def closure():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            return loss

        return optimizer.step(closure)

    return step


def make_bare_step(model, optimizer):
    """The caller clears: it may want the gradients."""

    def step(inputs, targets):
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def fit(model, loader, optimizer):
    accumulate = make_accumulating_step(model, optimizer, every=4)
    for inputs, targets in loader:
        accumulate(inputs, targets)
    search = make_line_search(model, torch.optim.LBFGS(model.parameters()))
    for inputs, targets in loader:
        search(inputs, targets)
    bare = make_bare_step(model, optimizer)
    for inputs, targets in loader:
        optimizer.zero_grad(set_to_none=True)
        bare(inputs, targets)
