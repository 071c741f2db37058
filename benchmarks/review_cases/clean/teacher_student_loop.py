import torch
import torch.nn as nn
import torch.nn.functional as F


class Projector(nn.Module):
    def __init__(self, encoder, dim, out):
        super().__init__()
        self.encoder, self.head = encoder, nn.Sequential(nn.Linear(dim, dim), nn.BatchNorm1d(dim), nn.ReLU(), nn.Linear(dim, out))

    def forward(self, x):
        return F.normalize(self.head(self.encoder(x)), dim=-1)


class MoCo(nn.Module):
    """Momentum encoder stays in training mode, without gradients, on purpose."""

    def __init__(self, make, dim=128, k=65536, m=0.999, t=0.2):
        super().__init__()
        self.q, self.k_enc = make(), make()
        self.k_enc.load_state_dict(self.q.state_dict())
        self.k_enc.requires_grad_(False)
        self.m, self.t = m, t
        self.register_buffer("queue", F.normalize(torch.randn(dim, k), dim=0))
        self.register_buffer("ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def _momentum(self):
        for pk, pq in zip(self.k_enc.parameters(), self.q.parameters()):
            pk.mul_(self.m).add_(pq, alpha=1 - self.m)

    @torch.no_grad()
    def _enqueue(self, keys):
        n, ptr = keys.size(0), int(self.ptr)  # allow: ESP305
        self.queue[:, ptr : ptr + n] = keys.t()
        self.ptr[0] = (ptr + n) % self.queue.size(1)

    def forward(self, x1, x2):
        q = self.q(x1)
        with torch.no_grad():
            self._momentum()
            k = self.k_enc(x2)
        pos = (q * k).sum(-1, keepdim=True)
        neg = q @ self.queue.clone().detach()
        logits = torch.cat([pos, neg], 1) / self.t
        self._enqueue(k)
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device=q.device))


def train(moco, loader, opt, device, epochs):
    moco.to(device).train()
    for epoch in range(epochs):
        total = torch.zeros((), device=device)
        for (a, b), _ in loader:
            loss = moco(a.to(device, non_blocking=True), b.to(device, non_blocking=True))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.detach()
        print(epoch, total.item() / len(loader))
