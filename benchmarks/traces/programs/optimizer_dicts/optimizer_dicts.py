import torch
from torch import nn

model = nn.ModuleDict({"a": nn.Linear(2, 2)})
params = [p for n, p in model.named_parameters() if n.startswith("b.")]
opt = torch.optim.AdamW(params)
