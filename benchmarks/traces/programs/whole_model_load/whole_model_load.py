import argparse
import os
import tempfile

import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.fc = nn.Linear(args.obs, args.act)

    def forward(self, x):
        return self.fc(x)


def main():
    args = argparse.Namespace(obs=4, act=2)
    path = os.path.join(tempfile.gettempdir(), "esper_policy.pth")
    torch.save(Policy(args), path)
    policy = torch.load(path)
    policy.eval()


main()
