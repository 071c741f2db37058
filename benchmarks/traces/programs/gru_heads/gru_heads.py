import torch
from torch import nn


class Speaker(nn.Module):
    def __init__(self, mels=40, classes=3):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(mels, 64), nn.ReLU())
        self.rnn = nn.GRU(64, 32, batch_first=True)
        self.cls = nn.Linear(64, classes)

    def forward(self, wav):
        h = self.enc(wav)
        _, last = self.rnn(h)
        return self.cls(last.squeeze(0))


def main():
    net = Speaker()
    print(net(torch.randn(4, 50, 40)).shape)


if __name__ == "__main__":
    main()
