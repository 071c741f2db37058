import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x) + torch.ones(4, device="cpu")


net = Net().to("meta")
print(net(torch.randn(2, 4, device="meta")))
x = torch.randn(2, 4)
print(net(x))
