import io

import torch
from torch import nn


def make(freeze):
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    if freeze:
        for p in net[0].parameters():
            p.requires_grad_(False)
    opt = torch.optim.Adam(p for p in net.parameters() if p.requires_grad)
    return net, opt


def resume():
    net, opt = make(freeze=False)
    buf = io.BytesIO()
    torch.save({"net": net.state_dict(), "opt": opt.state_dict()}, buf)
    buf.seek(0)
    ckpt = torch.load(buf)
    net, opt = make(freeze=True)
    net.load_state_dict(ckpt["net"])
    opt.load_state_dict(ckpt["opt"])


resume()
