import torch
from torch import nn

model = nn.Linear(2, 2)
compiled = torch.compile(model, backend="inducter")
compiled(torch.randn(1, 2))
