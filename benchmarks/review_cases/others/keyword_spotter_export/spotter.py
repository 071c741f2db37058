import torch
import torch.nn as nn


class Spotter(nn.Module):
    def __init__(self, mels=40, words=12, width=64):
        super().__init__()
        layers, last = [], mels
        for dilation in (1, 2, 4, 8):
            layers += [
                nn.Conv1d(last, width, 3, padding=dilation, dilation=dilation),
                nn.BatchNorm1d(width),
                nn.ReLU(),
                nn.Dropout(0.2),
            ]
            last = width
        self.net = nn.Sequential(*layers)
        self.fc = nn.Linear(width, words)

    def forward(self, mel):
        return self.fc(self.net(mel).mean(-1))


def trained(path):
    spotter = Spotter()
    spotter.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return spotter
