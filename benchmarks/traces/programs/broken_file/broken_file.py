import os
import tempfile

import torch
from torch import nn

path = os.path.join(tempfile.gettempdir(), "esper_model_final.pt")
torch.save(nn.Linear(256, 256).state_dict(), path)
with open(path, "r+b") as f:
    f.truncate(os.path.getsize(path) // 2)

model = nn.Linear(256, 256)
state = torch.load(path, weights_only=True)
model.load_state_dict(state)
