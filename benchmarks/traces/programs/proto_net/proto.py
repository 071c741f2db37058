import torch
from torch import nn

from episodes import episode


class Proto(nn.Module):
    def __init__(self, ways=5, dim=8):
        super().__init__()
        self.ways, self.net = ways, nn.Linear(dim, dim)

    def forward(self, x, labels):
        z = self.net(x)
        sums = torch.zeros(self.ways, z.shape[1]).index_add(0, labels, z)
        count = torch.bincount(labels, minlength=self.ways).unsqueeze(1)
        return sums / count


torch.manual_seed(0)
print(Proto()(*episode()).shape)
