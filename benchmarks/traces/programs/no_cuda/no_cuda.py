import torch
from torch import nn


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(10, 10)

    def forward(self, z):
        return self.net(z)


def main():
    gen = Generator().cuda()
    z = torch.randn(4, 10).cuda()
    print(gen(z).mean())


if __name__ == "__main__":
    main()
