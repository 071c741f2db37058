from torch import nn


class TDNN(nn.Module):
    def __init__(self, n_mels=64, width=32, classes=5):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(n_mels, width, 5, padding=2),
            nn.ReLU(),
            nn.Conv1d(width, width, 3, padding=1),
            nn.ReLU(),
        )
        self.out = nn.Linear(width, classes)

    def forward(self, mels):
        return self.out(self.layers(mels).mean(-1))
