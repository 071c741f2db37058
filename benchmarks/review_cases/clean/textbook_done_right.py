import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import StepLR


class Tower(nn.Module):
    def __init__(self, width, depth, drop=0.1, teacher=None):
        super().__init__()
        self.drop = drop
        self.layers = [nn.Linear(width, width) for _ in range(depth)]
        for number, layer in enumerate(self.layers):
            self.add_module(f"layer{number}", layer)
        self.criteria = [nn.MSELoss(), nn.L1Loss()]
        self.offset = torch.zeros(width)
        self.hidden_teacher = [teacher]

    def forward(self, x):
        p = self.drop if self.training else 0.0
        x = F.scaled_dot_product_attention(x, x, x, dropout_p=p)
        for layer in self.layers:
            x = F.dropout(layer(x), self.drop, training=self.training)
        if self.training:
            x = F.dropout(x, 0.01)
        return x


class MonteCarloHead(nn.Module):
    """Drops at test time as well: the spread of the outputs is the uncertainty."""

    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(F.dropout(x, 0.2))


def fit(model, loader, validate, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = StepLR(optimizer, step_size=10)
    best, weights = float("inf"), copy.deepcopy(model.state_dict())
    for epoch in range(epochs):
        if epoch:
            scheduler.step()
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        error = validate(model)
        if error < best:
            best = error
            weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
            torch.save({"weights": model.state_dict(), "epoch": epoch}, "best.pt")
    model.load_state_dict(weights)


def until_good_enough(model, optimizer, loader, limit):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if loss < limit:
            weights = model.state_dict()
            break
    else:
        return None
    return weights


def two_players(left, right, loader):
    first = torch.optim.Adam(left.parameters())
    second = torch.optim.Adam(right.parameters())
    for x in loader:
        first.zero_grad()
        second.zero_grad()
        (left(x) - right(x)).square().mean().backward()
        first.step()
        nn.utils.clip_grad_norm_(right.parameters(), 1.0)
        second.step()


def distil(student, teacher, x):
    with torch.no_grad():
        wanted = teacher(x).softmax(-1)
    return F.kl_div(F.log_softmax(student(x), -1), wanted, reduction="batchmean")
