import torch
from torch import nn
from torch.optim import AdamW, Muon


class ConvMixer(nn.Module):
    def __init__(self, dim=256, depth=8, kernel=5, patch=4, classes=100):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, dim, patch, patch), nn.GELU(), nn.BatchNorm2d(dim))
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(dim, dim, kernel, groups=dim, padding="same"), nn.GELU(), nn.BatchNorm2d(dim), nn.Conv2d(dim, dim, 1))
            for _ in range(depth)
        )
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x.mean((2, 3)))


def optimizers(model, lr=0.02):
    hidden = [p for p in model.blocks.parameters()]
    rest = [p for n, p in model.named_parameters() if not n.startswith("blocks")]
    return [Muon(hidden, lr=lr), AdamW(rest, lr=3e-4)]  # expect: ESP508


def train(loader, epochs=10, device="cuda"):
    model = ConvMixer().to(device)
    opts = optimizers(model)
    model.train()
    for _ in range(epochs):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            for o in opts:
                o.zero_grad(set_to_none=True)
            loss.backward()
            for o in opts:
                o.step()
