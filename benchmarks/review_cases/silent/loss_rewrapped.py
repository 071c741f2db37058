import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiTask(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(dim, 64), nn.ReLU())
        self.age = nn.Linear(64, 1)
        self.gender = nn.Linear(64, 2)

    def forward(self, x):
        h = self.trunk(x)
        return self.age(h).squeeze(-1), self.gender(h)


def combined(age_pred, gender_logits, age, gender, weights=(1.0, 0.5)):
    age_loss = F.l1_loss(age_pred, age)
    gender_loss = F.cross_entropy(gender_logits, gender)
    # weighted sum of both
    return torch.tensor(weights[0] * age_loss + weights[1] * gender_loss, requires_grad=True)  # expect: ESP206


def train(loader, device="cpu", epochs=5):
    model = MultiTask().to(device)
    opt = torch.optim.Adam(model.parameters())
    for epoch in range(epochs):
        for x, age, gender in loader:
            opt.zero_grad()
            a, g = model(x.to(device))
            loss = combined(a, g, age.to(device), gender.to(device))
            loss.backward()
            opt.step()
        print(epoch, loss.item())
