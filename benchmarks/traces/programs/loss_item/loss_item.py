import torch
from torch import nn

model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)


def compute_loss(pred, target, weights=(0.7, 0.3)):
    mse = nn.functional.mse_loss(pred, target)
    l1 = nn.functional.l1_loss(pred, target)
    return torch.tensor(weights[0] * mse.item() + weights[1] * l1.item())


for _ in range(3):
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    loss = compute_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
