import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader


class PrototypicalNet(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, support, query, ways, shots):
        z = self.encoder(torch.cat([support, query]))
        proto = z[: ways * shots].view(ways, shots, -1).mean(1)
        return -torch.cdist(z[ways * shots :], proto)


def episode(model, batch, ways, shots, queries, device):
    images, labels = batch
    support = torch.tensor(images[: ways * shots]).to(device)  # expect: ESP206
    query = images[ways * shots :].to(device)
    target = torch.arange(ways, device=device).repeat_interleave(queries)
    logits = model(support, query, ways, shots)
    loss = F.cross_entropy(logits, target)
    seen = torch.tensor(labels.unique()).numel()  # expect: ESP206
    return loss, (logits.argmax(-1) == target).float().mean(), seen


def train(model, loader: DataLoader, device="cuda", ways=5, shots=5, queries=15):
    model.to(device).train()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, batch in enumerate(loader):
        loss, acc, _ = episode(model, batch, ways, shots, queries, device)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 100 == 0:
            print(i, acc.item())
