import torch
import torch.nn.functional as F
from torch.nn import DataParallel


class Config:
    anomaly = True
    epochs = 90


def wrap(model):
    gpus = list(range(torch.cuda.device_count()))
    return DataParallel(model, device_ids=gpus).cuda()  # expect: ESP403


def train(model, loader, cfg=Config()):
    model = wrap(model)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    model.train()
    for epoch in range(cfg.epochs):
        for x, y in loader:
            with torch.autograd.detect_anomaly():  # expect: ESP404
                loss = F.cross_entropy(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
                opt.zero_grad(set_to_none=True)
                loss.backward()
            opt.step()
        print(epoch, loss.item())
        torch.save(model.module.state_dict(), "last.pt")
