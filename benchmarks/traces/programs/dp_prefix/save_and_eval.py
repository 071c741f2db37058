import os
import tempfile

import torch
from net import Net


def save(path):
    model = torch.nn.DataParallel(Net())
    torch.save({"state_dict": model.state_dict(), "epoch": 3}, path)


def evaluate(path):
    model = Net()
    ckpt = torch.load(path, map_location="cpu")
    model.load_state_dict(ckpt["state_dict"])
    model.eval()
    return model(torch.randn(1, 10))


path = os.path.join(tempfile.gettempdir(), "esper_dp_prefix.pt")
save(path)
evaluate(path)
