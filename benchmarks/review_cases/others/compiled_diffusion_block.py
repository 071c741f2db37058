import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Modulated(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(d, elementwise_affine=False)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mod = nn.Linear(d, 3 * d)

    def forward(self, x, cond):
        b, n, d = x.shape
        shift, scale, gate = self.mod(F.silu(cond))[:, None].chunk(3, dim=-1)
        y = self.norm(x) * (1 + scale) + shift
        q, k, v = self.qkv(y).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d)
        if n > 4096:
            y = y * 0.5
        return x + gate * self.out(y)


class Denoiser(nn.Module):
    def __init__(self, d=384, depth=8, heads=6, patch=2):
        super().__init__()
        self.patch = patch
        self.inp = nn.Conv2d(4, d, patch, patch)
        self.time = nn.Sequential(nn.Linear(1, d), nn.SiLU(), nn.Linear(d, d))
        self.blocks = nn.ModuleList(Modulated(d, heads) for _ in range(depth))
        self.out = nn.Linear(d, 4 * patch * patch)
        self.frugal = False

    def forward(self, z, t):
        x = self.inp(z)
        h, w = x.shape[-2:]
        x = x.flatten(2).transpose(1, 2)
        cond = self.time(t[:, None])
        for block in self.blocks:
            x = checkpoint(block, x, cond, use_reentrant=False) if self.frugal else block(x, cond)
        x = self.out(x).transpose(1, 2)
        x = torch.where(x.isfinite(), x, torch.zeros_like(x))
        return F.pixel_shuffle(x.unflatten(2, (h, w)), self.patch)


def train(latents, steps, device="cuda"):
    net = Denoiser().to(device).train()
    fast = torch.compile(net, mode="max-autotune-no-cudagraphs")
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    for step, z in zip(range(steps), latents):
        z = z.to(device, non_blocking=True)
        t = torch.rand(len(z), device=device)
        noise = torch.randn_like(z)
        mixed = torch.lerp(z, noise, t[:, None, None, None])
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.mse_loss(fast(mixed, t), noise - z)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        if step % 200 == 0:
            print(f"{step} {loss.item():.4f}")
    return net


@torch.inference_mode()
def sample(net, n, device="cuda", steps=50):
    net.eval()
    z = torch.randn(n, 4, 32, 32, device=device)
    for i in range(steps, 0, -1):
        t = torch.full((n,), i / steps, device=device)
        z = z - net(z, t) / steps
    return z
