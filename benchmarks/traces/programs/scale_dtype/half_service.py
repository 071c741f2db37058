import torch
from torch import nn


class Service:
    def __init__(self, net, dtype=torch.bfloat16):
        self.net = net.to(dtype).eval()

    @torch.no_grad()
    def predict(self, rows):
        x = torch.tensor(rows)
        return self.net(x).softmax(-1).tolist()
