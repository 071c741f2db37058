from torch import nn


class Net(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.body = nn.Linear(4, width)
        self.head = nn.Linear(width, classes)

    def forward(self, rows):
        return self.head(self.body(rows).relu())
