import torch
from torch import nn

EPOCHS = 3


def main():
    model = nn.Linear(2, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [torch.randn(4, 2) for _ in range(10)]
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=EPOCHS * 5)
    for _ in range(EPOCHS):
        for b in batches:
            opt.zero_grad()
            model(b).mean().backward()
            opt.step()
            sched.step()


main()
