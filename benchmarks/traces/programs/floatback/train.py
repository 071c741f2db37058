import torch
from loop import accumulate
from torch import nn

model, criterion = nn.Linear(3, 1), nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [(torch.randn(4, 3), torch.randn(4, 1)) for _ in range(3)]
for epoch in range(2):
    loss = accumulate(model, criterion, batches)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
