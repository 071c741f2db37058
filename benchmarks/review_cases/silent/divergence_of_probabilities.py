import torch
from torch import nn


class Distiller(nn.Module):
    def __init__(self, student, teacher, heat=4.0):
        super().__init__()
        self.student, self.teacher, self.heat = student, teacher, heat
        self.divergence = nn.KLDivLoss(reduction="batchmean")

    def forward(self, x):
        learned = torch.softmax(self.student(x) / self.heat, dim=-1)
        with torch.no_grad():
            wanted = torch.softmax(self.teacher(x) / self.heat, dim=-1)
        return self.divergence(learned, wanted) * self.heat**2  # expect: ESP201
