import torch
import torch.nn as nn
import torch.nn.functional as F


class WorldModel(nn.Module):
    def __init__(self, obs=64, act=6, h=256):
        super().__init__()
        self.cell, self.dec = nn.GRUCell(obs + act, h), nn.Linear(h, obs)

    def forward(self, obs, act, h):
        h = self.cell(torch.cat([obs, act], -1), h)
        return self.dec(h), h


def train(model, episodes, device="cuda"):
    opt = torch.optim.Adam(model.parameters(), 3e-4)
    model.to(device).train()
    latents = []
    for obs, act in episodes:
        obs, act = obs.to(device), act.to(device)
        h = torch.zeros(obs.size(1), 256, device=device)
        loss = torch.zeros((), device=device)
        for t in range(obs.size(0) - 1):
            pred, h = model(obs[t], act[t], h)
            loss = loss + F.mse_loss(pred, obs[t + 1])
        opt.zero_grad()
        loss.backward()
        opt.step()
        latents.append(h)  # expect: ESP303|ESP301
    return torch.cat(latents).detach().cpu()
