import io

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, bias=True):
        super().__init__()
        self.encoder = nn.Linear(4, 4, bias=bias)


buf = io.BytesIO()
torch.save(torch.compile(Net()).state_dict(), buf)
buf.seek(0)
net = Net()
net.load_state_dict(torch.load(buf))
