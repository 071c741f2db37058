"""Pre-training of a global weather model on reanalysis data."""
import torch
import torch.nn as nn
from torch.utils.tensorboard import SummaryWriter


class Patchified(nn.Module):
    def __init__(self, fields=69, patch=8, dim=768, depth=12):
        super().__init__()
        self.embed = nn.Conv2d(fields, dim, patch, patch)
        layer = nn.TransformerEncoderLayer(dim, 12, 4 * dim, batch_first=True, norm_first=True, activation="gelu")
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.out = nn.ConvTranspose2d(dim, fields, patch, patch)

    def forward(self, state):
        h = self.embed(state)
        b, c, y, x = h.shape
        h = self.blocks(h.flatten(2).transpose(1, 2))
        return state + self.out(h.transpose(1, 2).reshape(b, c, y, x))


def train(loader, latitude_weights, steps, device="cuda"):
    writer = SummaryWriter("runs/weather")
    model = Patchified().to(device, memory_format=torch.channels_last)
    weights = latitude_weights.to(device).view(1, 1, -1, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.1, fused=True)
    model.train()
    for step, (now, later) in zip(range(steps), loader):  # expect: ESP407
        now, later = now.to(device, non_blocking=True), later.to(device, non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            forecast = model(now)
        loss = (weights * (forecast.float() - later).square()).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        writer.add_image("forecast/t2m", forecast[0, :1].detach().float(), step)  # expect: ESP411  # allow: ESP305
    writer.close()
    torch.save(model.state_dict(), "weather.pt")
