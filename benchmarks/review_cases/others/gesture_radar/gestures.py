import torch
from torch import nn

from check import macro_recall


class RadarNet(nn.Module):
    """Range-Doppler cubes of (batch, frames, range, doppler) to gestures."""

    def __init__(self, gestures=8, side=32):
        super().__init__()
        self.side = side
        self.frame = nn.Sequential(
            nn.Conv2d(1, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()
        )
        self.lstm = nn.LSTM(32 * (side // 4) ** 2, 64)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(64, gestures)

    def forward(self, cube):
        batch, frames = cube.shape[0], cube.shape[1]
        maps = self.frame(cube.reshape(batch * frames, 1, self.side, self.side))
        steps = maps.reshape(batch, frames, -1)
        seq = steps.view(frames, batch, -1)  # expect: ESP209
        _, (h, _) = self.lstm(seq)
        return self.out(self.drop(h[-1]))


def train(train_loader, val_loader, epochs=60, check_every=200):
    net = RadarNet()
    opt = torch.optim.Adam(net.parameters(), 3e-4)
    criterion = nn.CrossEntropyLoss()
    step = 0
    for epoch in range(epochs):
        net.train()
        for cube, gesture in train_loader:
            opt.zero_grad()
            loss = criterion(net(cube), gesture)
            loss.backward()
            opt.step()
            step += 1
            if step % check_every == 0:
                print(step, macro_recall(net, val_loader, 8))  # expect: ESP103 @mode
    return net
