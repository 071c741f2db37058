import torch
import torch.nn as nn
from torch.utils.data import DataLoader


class Balanced(nn.Module):
    """Class-balanced loss; its weights are a buffer."""

    def __init__(self, counts, beta=0.999):
        super().__init__()
        counts = torch.as_tensor(counts, dtype=torch.float32)
        effective = (1 - beta**counts) / (1 - beta)
        self.register_buffer("weight", (1 / effective) / (1 / effective).sum() * len(counts))

    def forward(self, logits, target):
        return nn.functional.cross_entropy(logits, target, weight=self.weight)


def train(model, dataset, counts, epochs=10):
    device = torch.device("cuda")
    model = model.to(device)
    balanced = Balanced(counts).to(device)
    weighted = nn.CrossEntropyLoss(weight=torch.tensor([0.2, 0.8])).to(device)
    bce = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([3.0], device=device))
    loader = DataLoader(dataset, 128, shuffle=True, num_workers=4, pin_memory=True)
    opt = torch.optim.Adam(model.parameters())
    model.train()
    for _ in range(epochs):
        for x, y, rare in loader:
            x, y, rare = x.to(device, non_blocking=True), y.to(device, non_blocking=True), rare.to(device, non_blocking=True)
            logits, coarse, flag = model(x)
            loss = balanced(logits, y) + weighted(coarse, rare) + bce(flag.squeeze(-1), rare.float())
            opt.zero_grad()
            loss.backward()
            opt.step()


def with_default_device():
    torch.set_default_device("cuda")
    net = nn.Linear(8, 2)
    x = torch.randn(4, 8)
    return net(x) + torch.zeros(2)


def built_there():
    with torch.device("cuda"):
        net = nn.Linear(8, 2)
        bias = torch.ones(2)
    return net(torch.randn(4, 8, device="cuda")) + bias


def indexed(table, ids):
    """A CUDA table may be read at indices that live on the CPU."""
    table = table.cuda()
    rows = torch.randperm(len(table))[:16]
    return table[rows], table[torch.arange(4)], ids
