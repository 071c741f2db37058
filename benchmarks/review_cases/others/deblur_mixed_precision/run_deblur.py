import torch
import torch.nn as nn
from torch.cuda.amp import GradScaler, autocast  # allow: ESP502
from torch.utils.data import DataLoader

from safety import tame


class Gate(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        return a * b


class DeblurNet(nn.Module):
    def __init__(self, c=48, n=16):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, c, 3, padding=1), nn.Conv2d(c, 3, 3, padding=1)
        self.body = nn.ModuleList(
            nn.Sequential(nn.Conv2d(c, 2 * c, 3, padding=1), Gate(), nn.Conv2d(c, c, 1)) for _ in range(n)
        )

    def forward(self, blurred):
        x = self.first(blurred)
        for blk in self.body:
            x = x + blk(x)
        return blurred + self.last(x)


def main(dataset, iterations=400_000):
    net = DeblurNet().cuda().train()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.9))
    scaler = GradScaler()  # expect: ESP502
    loader = DataLoader(dataset, 32, shuffle=True, num_workers=12, pin_memory=True, persistent_workers=True)
    done = 0
    while done < iterations:
        for blurred, sharp in loader:
            blurred, sharp = blurred.cuda(non_blocking=True), sharp.cuda(non_blocking=True)
            opt.zero_grad(set_to_none=True)
            with autocast():  # expect: ESP502
                loss = nn.functional.l1_loss(net(blurred), sharp)
            scaler.scale(loss).backward()
            tame(net.parameters())  # expect: ESP503 @clip
            scaler.step(opt)
            scaler.update()
            done += 1
    torch.save(net.state_dict(), "deblur.pt")
