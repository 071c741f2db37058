"""Checks and records that only run where somebody asks for them."""
import argparse
import logging

import torch
import torch.nn as nn
import torch.nn.functional as F

log = logging.getLogger("crops")


class YieldNet(nn.Module):
    def __init__(self, bands=10, steps=24):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(bands * steps, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, series):
        return self.net(series).squeeze(1)


def train(loader, args):
    model = YieldNet().to(args.device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for step, (series, tonnes) in enumerate(loader):
        with torch.autograd.set_detect_anomaly(args.debug):
            loss = F.l1_loss(model(series.to(args.device)), tonnes.to(args.device))
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
        if args.debug:
            log.debug("step %d loss %.4f", step, loss.item())
        if step % args.log_every == 0:
            log.info("step %d loss %.4f", step, loss.item())
        if (step + 1) % args.save_every == 0:
            torch.save(model.state_dict(), f"{args.out}/yield-{step + 1}.pt")
    return model


def arguments(words=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("--log-every", type=int, default=200)
    parser.add_argument("--save-every", type=int, default=5000)
    parser.add_argument("--out", default=".")
    return parser.parse_args(words)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    data = [(torch.randn(4, 24, 10), torch.rand(4))] * 3
    train(data, arguments(["--device", "cpu"]))
