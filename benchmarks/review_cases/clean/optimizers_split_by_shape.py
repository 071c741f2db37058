import torch
import torch.nn as nn
import torch.nn.functional as F


class MLPMixer(nn.Module):
    def __init__(self, tokens=64, dim=256, classes=10, depth=6):
        super().__init__()
        self.emb = nn.Linear(48, dim)
        self.tok = nn.ModuleList(nn.Linear(tokens, tokens) for _ in range(depth))
        self.ch = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.emb(x)
        for tok, ch, norm in zip(self.tok, self.ch, self.norms):
            x = x + tok(norm(x).transpose(1, 2)).transpose(1, 2)
            x = x + F.gelu(ch(x))
        return self.head(x.mean(1))


def build_optimizers(model):
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "head" not in n]
    others = [p for n, p in model.named_parameters() if p.ndim != 2 or "head" in n]
    return torch.optim.Muon(matrices, lr=0.02, weight_decay=0.01), torch.optim.AdamW(others, lr=3e-4)


def weights_only(model):
    params = [m.weight for m in model.modules() if isinstance(m, nn.Linear)]
    return torch.optim.Muon(params, lr=0.02)


def train(loader, device="cuda"):
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.backends.cudnn.conv.fp32_precision = "tf32"
    model = MLPMixer().to(device)
    muon, adam = build_optimizers(model)
    model.train()
    for x, y in loader:
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        muon.zero_grad(set_to_none=True)
        adam.zero_grad(set_to_none=True)
        loss.backward()
        muon.step()
        adam.step()
    return model
