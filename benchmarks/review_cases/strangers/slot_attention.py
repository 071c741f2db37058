"""Object-centric slots: the softmax runs over the slots, which compete for the inputs."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SlotAttention(nn.Module):
    def __init__(self, slots=5, dim=64, rounds=3, eps=1e-8):
        super().__init__()
        self.slots, self.rounds, self.eps, self.scale = slots, rounds, eps, dim**-0.5
        self.mu = nn.Parameter(torch.randn(1, 1, dim))
        self.log_sigma = nn.Parameter(torch.zeros(1, 1, dim))
        self.norm_in, self.norm_slot, self.norm_mlp = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, inputs):
        b, n, d = inputs.shape
        noise = torch.randn(b, self.slots, d, device=inputs.device, dtype=inputs.dtype)
        slots = self.mu + self.log_sigma.exp() * noise
        inputs = self.norm_in(inputs)
        k, v = self.k(inputs), self.v(inputs)
        for _ in range(self.rounds):
            before = slots
            q = self.q(self.norm_slot(slots))
            attention = F.softmax(torch.bmm(q, k.transpose(1, 2)) * self.scale, dim=1) + self.eps
            weights = attention / attention.sum(dim=-1, keepdim=True)
            updates = torch.bmm(weights, v)
            slots = self.gru(updates.reshape(-1, d), before.reshape(-1, d)).reshape(b, self.slots, d)
            slots = slots + self.mlp(self.norm_mlp(slots))
        return slots


class SegmentByPixel(nn.Module):
    """Soft masks of a decoder: at each pixel the slots sum to one."""

    def __init__(self, dim=64):
        super().__init__()
        self.decode = nn.ConvTranspose2d(dim, 4, 8)

    def forward(self, slots):
        b, s, d = slots.shape
        out = self.decode(slots.reshape(b * s, d, 1, 1)).reshape(b, s, 4, 8, 8)
        masks = out[:, :, 3:].softmax(dim=1)
        return (out[:, :, :3] * masks).sum(dim=1), masks


if __name__ == "__main__":
    picture, masks = SegmentByPixel()(SlotAttention()(torch.randn(2, 49, 64)))
    assert picture.shape == (2, 3, 8, 8) and torch.allclose(masks.sum(1), torch.ones(2, 1, 8, 8))
