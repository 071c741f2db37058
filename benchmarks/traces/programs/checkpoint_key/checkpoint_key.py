import io

import torch
from torch import nn


def save(model, epoch):
    buf = io.BytesIO()
    torch.save({"model_state_dict": model.state_dict(), "epoch": epoch}, buf)
    buf.seek(0)
    return buf


def load(model, f):
    ckpt = torch.load(f)
    model.load_state_dict(ckpt["state_dict"])
    return ckpt["epoch"]


net = nn.Linear(2, 2)
load(net, save(net, 4))
