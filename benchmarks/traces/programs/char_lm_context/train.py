import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from decoder import Decoder
from settings import LMSettings
from windows import Windows, load_ids


def fit(settings):
    data = Windows(load_ids(settings), settings.window)
    loader = DataLoader(data, batch_size=settings.batch, shuffle=True)
    net = Decoder(settings)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-4)
    for step, (x, y) in enumerate(loader):
        logits = net(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step == 5:
            break


if __name__ == "__main__":
    fit(LMSettings())
