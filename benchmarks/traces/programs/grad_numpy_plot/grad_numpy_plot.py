import numpy as np
import torch
from torch import nn

net = nn.Linear(2, 1)
out = net(torch.randn(4, 2))
print(np.mean(out))
