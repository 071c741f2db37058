import torch
from torch import nn
from torch.utils.data import DataLoader

from churn import Churn, generate

loss_fn = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0]))


def batch_loss(model, batch):
    features, target = batch
    return loss_fn(model(features), target)


def train(epochs=2):
    loader = DataLoader(Churn(generate(60)), batch_size=20)
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(epochs):
        for batch in loader:
            opt.zero_grad()
            loss = batch_loss(model, batch)
            loss.backward()
            opt.step()


if __name__ == "__main__":
    train()
