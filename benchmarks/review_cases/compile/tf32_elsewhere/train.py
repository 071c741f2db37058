import torch
import torch.nn as nn
import torch.nn.functional as F

import settings


def main(loader, epochs=10):
    settings.determinism(7)
    settings.fast_math()
    torch.backends.cuda.matmul.allow_tf32 = True  # expect: ESP510 @t
    torch.set_float32_matmul_precision("high")  # allow: ESP510
    net = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda()
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    net.train()
    for epoch in range(epochs):
        for x, y in loader:
            loss = F.cross_entropy(net(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        print(epoch, loss.item())
