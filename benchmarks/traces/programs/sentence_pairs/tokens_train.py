import torch
from torch import nn

from tokens_net import FLAGS, Tokens


def batch(n, t):
    return torch.randint(0, 30, (n, t)), torch.rand(n, t, FLAGS), torch.randint(0, 3, (n,))


def main():
    net = Tokens(30, 3)
    opt = torch.optim.Adam(net.parameters())
    for _ in range(2):
        ids, flags, y = batch(4, 9)
        loss = nn.functional.cross_entropy(net(ids, flags), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
