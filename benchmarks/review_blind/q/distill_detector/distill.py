"""Feature and response distillation for a dense detector."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from backbones import make_student, make_teacher


class FeatureMatch(nn.Module):
    def __init__(self, student_channels, teacher_channels):
        super().__init__()
        self.adapt = nn.ModuleList(
            nn.Conv2d(s, t, 1) for s, t in zip(student_channels, teacher_channels))

    def forward(self, student_feats, teacher_feats):
        loss = 0.0
        for adapt, s, t in zip(self.adapt, student_feats, teacher_feats):
            loss = loss + F.mse_loss(F.normalize(adapt(s), dim=1), F.normalize(t, dim=1))
        return loss / len(self.adapt)


def response_loss(student_cls, teacher_cls):
    loss = 0.0
    for s, t in zip(student_cls, teacher_cls):
        weight = t.sigmoid().amax(1, keepdim=True)
        bce = F.binary_cross_entropy_with_logits(s, t.sigmoid(), reduction="none")
        loss = loss + (bce * weight).sum() / weight.sum().clamp(min=1.0)
    return loss / len(student_cls)


class DistillTrainer:
    def __init__(self, n_classes, teacher_ckpt, task_loss, lr=1e-3, device="cuda"):
        self.device = device
        self.teacher = make_teacher(n_classes).to(device)
        state = torch.load(teacher_ckpt, map_location=device, weights_only=True)
        self.teacher.load_state_dict(state)
        self.student = make_student(n_classes).to(device)
        self.match = FeatureMatch((96, 160, 160), (256, 512, 512)).to(device)
        self.task_loss = task_loss
        params = list(self.student.parameters()) + list(self.match.parameters())
        self.optimizer = torch.optim.AdamW(params, lr=lr, weight_decay=0.05)

    def step(self, images, targets):
        images = images.to(self.device, non_blocking=True)
        t_feats, t_cls, _ = self.teacher(images)
        s_feats, s_cls, s_box = self.student(images)
        loss = self.task_loss(s_cls, s_box, targets)
        loss = loss + 2.0 * self.match(s_feats, [f.detach() for f in t_feats])
        loss = loss + response_loss(s_cls, [c.detach() for c in t_cls])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            self.student.train()
            total = torch.zeros((), device=self.device)
            for images, targets in loader:
                total += self.step(images, targets)
            print(f"epoch {epoch}: {total.item() / len(loader):.4f}")
            torch.save(self.student.state_dict(), f"student_{epoch:03d}.pth")
