import torch
from torch import nn

model = nn.Sequential(nn.GRU(4, 8, batch_first=True), nn.Linear(8, 2))
print(model(torch.randn(2, 5, 4)))
