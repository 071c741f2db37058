import torch
from torch import nn

from memory_policy import MemoryPolicy


def online(steps=4):
    policy = MemoryPolicy()
    opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
    policy.reset(6)
    for _ in range(steps):
        logits = policy(torch.randn(6, 5))
        loss = nn.functional.cross_entropy(logits, torch.randint(0, 2, (6,)))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    online()
