import torch
from torch import nn
import torch.nn.functional as F


class Scorer(nn.Module):
    def __init__(self, n_features):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_features, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.net(x)


def pairwise_hinge(scores, stars):
    """Every wine against every other: broadcasting is the point."""
    gap = scores[:, None] - scores[None, :]
    wanted = torch.sign(stars[:, None] - stars[None, :])
    return (F.relu(1 - wanted * gap) * wanted.abs()).mean()


def quantile_loss(pred, y, taus=(0.1, 0.5, 0.9)):
    tau = torch.tensor(taus, device=pred.device)
    error = y.unsqueeze(1) - pred
    return torch.maximum(tau * error, (tau - 1) * error).mean()


def fit(x, price, stars, epochs=200):
    """`price` is (n, 1) and `stars` (n,), both float."""
    value, taste = Scorer(x.shape[1]), Scorer(x.shape[1])
    spread = nn.Linear(x.shape[1], 3)
    params = [*value.parameters(), *taste.parameters(), *spread.parameters()]
    opt = torch.optim.Adam(params, lr=1e-3)
    mse, bce = nn.MSELoss(), nn.BCEWithLogitsLoss()
    cheap = (price < price.median()).float()
    history = []
    for epoch in range(epochs):
        predicted = value(x)
        score = taste(x).squeeze(-1)
        loss = mse(predicted, price.reshape(-1, 1))
        loss = loss + bce(predicted, cheap)
        loss = loss + pairwise_hinge(score, stars)
        loss = loss + F.mse_loss(score, stars.view_as(score))
        loss = loss + quantile_loss(spread(x), price.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append(float(loss))
    return value, taste, history
