import torch
from torch import nn

from table import rows, split


def as_tensors():
    features, labels = split(rows())
    x = torch.tensor(features, dtype=torch.float32)
    return (x - x.mean(0)) / x.std(0), torch.tensor(labels, dtype=torch.float32)


def fit(steps=50):
    x, y = as_tensors()
    model = nn.Linear(x.shape[1], 1)
    opt = torch.optim.LBFGS(model.parameters())

    def closure():
        opt.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
        loss.backward()
        return loss

    for _ in range(steps):
        opt.step(closure)
    return model


if __name__ == "__main__":
    print(fit().weight)
