import torch
from torch import nn
from torch.export import Dim, export


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def forward(self, x):
        x = x.reshape(4, 6)
        return self.fc(x)


batch = Dim("batch")
program = export(Head(), (torch.randn(4, 6),), dynamic_shapes={"x": {0: batch}})
print(program)
