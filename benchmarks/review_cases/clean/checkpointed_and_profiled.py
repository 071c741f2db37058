import torch
import torch.nn as nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.checkpoint import checkpoint


class Deep(nn.Module):
    def __init__(self, d=512, depth=24):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(depth))
        self.head = nn.Linear(d, 10)

    def forward(self, x):
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return self.head(x)


def profile_steps(model, batches, opt, device):
    model.train()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], schedule=schedule(wait=1, warmup=2, active=3)) as prof:
        for x, y in batches:
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            prof.step()
    return prof.key_averages().table(sort_by="self_cuda_time_total", row_limit=20)


def debug_nan(model, batch, device):
    """One step under anomaly detection; off again afterwards."""
    x, y = batch
    with torch.autograd.detect_anomaly():
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
    model.zero_grad(set_to_none=True)


def main(batches, debug=False):
    device = torch.device("cuda")
    torch.autograd.set_detect_anomaly(debug)
    model = Deep().to(device)
    opt = torch.optim.AdamW(model.parameters(), fused=True)
    print(profile_steps(model, batches, opt, device))
