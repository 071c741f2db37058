import torch
from layers import GatedBlock

torch.manual_seed(0)
block = GatedBlock(32)
opt = torch.optim.AdamW(block.parameters())
for step in range(3):
    out = block(torch.randn(8, 32))
    loss = out.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
