"""Knowledge distillation of a segmentation student."""
import torch
from torch import nn
import torch.nn.functional as F


class DistillLoss(nn.Module):
    def __init__(self, temperature=2.0, alpha=0.7):
        super().__init__()
        self.t = temperature
        self.alpha = alpha
        self.kl = nn.KLDivLoss(reduction="batchmean")
        self.ce = nn.CrossEntropyLoss(ignore_index=255)

    def forward(self, student_logits, teacher_logits, labels):
        student = F.softmax(student_logits / self.t, dim=1)
        teacher = F.softmax(teacher_logits / self.t, dim=1)
        soft = self.kl(student, teacher) * self.t ** 2  # expect: ESP201
        hard = self.ce(student_logits, labels)
        return self.alpha * soft + (1 - self.alpha) * hard


class Distiller:
    def __init__(self, student, teacher, lr, device):
        self.student = student.to(device)
        self.teacher = teacher.to(device).eval()
        for p in self.teacher.parameters():
            p.requires_grad_(False)
        self.criterion = DistillLoss()
        self.optimizer = torch.optim.SGD(self.student.parameters(), lr=lr, momentum=0.9)
        self.device = device

    def step(self, images, labels):
        images, labels = images.to(self.device), labels.to(self.device)
        with torch.no_grad():
            teacher_logits = self.teacher(images)
        student_logits = self.student(images)
        loss = self.criterion(student_logits, teacher_logits, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()
