import torch
import torch.nn as nn
import torch.nn.functional as F


class Distiller(nn.Module):
    """Student learns from a frozen teacher."""

    def __init__(self, student, teacher, temperature=4.0, alpha=0.7):
        super().__init__()
        self.student, self.teacher = student, teacher.eval().requires_grad_(False)
        self.t, self.alpha = temperature, alpha

    def forward(self, x, y):
        s = self.student(x)
        with torch.no_grad():
            t = self.teacher(x)
        p_student = F.softmax(s / self.t, dim=1)
        p_teacher = F.softmax(t / self.t, dim=1)
        soft = F.kl_div(p_student.log(), p_teacher, reduction="batchmean") * self.t**2  # expect: ESP210|ESP213
        hard = F.cross_entropy(s, y)
        return self.alpha * soft + (1 - self.alpha) * hard


def train(student, teacher, loader, device, epochs=10):
    distiller = Distiller(student, teacher).to(device)
    opt = torch.optim.AdamW(student.parameters(), 5e-4)
    for epoch in range(epochs):
        student.train()
        for x, y in loader:
            opt.zero_grad(set_to_none=True)
            loss = distiller(x.to(device), y.to(device))
            loss.backward()
            opt.step()
        print(epoch, loss.item())
