import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from stepper import Stepper

torch.backends.cuda.matmul.fp32_precision = "tf32"
torch.backends.cudnn.conv.fp32_precision = "tf32"


class Tracker(nn.Module):
    """Correlates a template with a search region."""

    def __init__(self, c=128):
        super().__init__()
        self.embed = nn.Sequential(nn.Conv2d(3, 64, 5, 2), nn.GroupNorm(8, 64), nn.ReLU(), nn.Conv2d(64, c, 3, 2))
        self.adjust = nn.Conv2d(1, 1, 1)

    def forward(self, template, search):
        z, x = self.embed(template), self.embed(search)
        b, c, h, w = x.shape
        response = F.conv2d(x.reshape(1, b * c, h, w), z, groups=b)
        return self.adjust(response.transpose(0, 1))


def main(clips, val_clips, epochs=50):
    net = Tracker().cuda()
    step = Stepper(torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9))
    workers = min(8, os.cpu_count() or 1)
    loader = DataLoader(clips, 32, shuffle=True, num_workers=workers, pin_memory=True, persistent_workers=True)
    val_loader = DataLoader(val_clips, 32, num_workers=workers, pin_memory=True)
    for epoch in range(epochs):
        net.train()
        norms = []
        for template, search, label in loader:
            label = label.cuda(non_blocking=True)
            with torch.autocast("cuda", dtype=torch.float16):
                response = net(template.cuda(non_blocking=True), search.cuda(non_blocking=True))
                loss = F.binary_cross_entropy_with_logits(response, label.view_as(response))
            norms.append(step(loss, net.parameters()))
        net.eval()
        hits = torch.zeros((), device="cuda")
        with torch.inference_mode(), torch.autocast("cuda", dtype=torch.float16):
            for template, search, label in val_loader:
                response = net(template.cuda(non_blocking=True), search.cuda(non_blocking=True)).flatten(1)
                hits += (response.argmax(1) == label.cuda(non_blocking=True).flatten(1).argmax(1)).sum()
        print(epoch, hits.item() / len(val_clips), torch.stack(norms).mean().item())
