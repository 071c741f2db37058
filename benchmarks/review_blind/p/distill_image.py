"""Knowledge distillation: ResNet-50 teacher into MobileNet student."""
import logging

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import models
from torchvision.datasets import ImageFolder
from torchvision import transforms as T

log = logging.getLogger("distill")

CFG = dict(root="/data/pets", classes=37, batch=96, epochs=40, lr=0.05, temperature=4.0, alpha=0.7)


class DistillLoss(nn.Module):
    def __init__(self, temperature, alpha):
        super().__init__()
        self.t = temperature
        self.alpha = alpha
        self.kl = nn.KLDivLoss(reduction="batchmean")

    def forward(self, student_logits, teacher_logits, target):
        soft_s = F.softmax(student_logits / self.t, dim=1)
        soft_t = F.softmax(teacher_logits / self.t, dim=1)
        kd = self.kl(soft_s, soft_t) * self.t ** 2
        ce = F.cross_entropy(student_logits, target)
        return self.alpha * kd + (1 - self.alpha) * ce


def build_teacher(path, device):
    net = models.resnet50(num_classes=CFG["classes"])
    net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    for p in net.parameters():
        p.requires_grad_(False)
    return net.to(device)


def build_loaders():
    norm = T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    tr = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), norm])
    te = T.Compose([T.Resize(256), T.CenterCrop(224), T.ToTensor(), norm])
    mk = lambda split, tf, sh: DataLoader(
        ImageFolder(f"{CFG['root']}/{split}", tf), CFG["batch"], shuffle=sh,
        num_workers=8, pin_memory=True, drop_last=sh)
    return mk("train", tr, True), mk("val", te, False)


@torch.no_grad()
def accuracy(net, loader, device):
    net.eval()
    hit = n = 0
    for x, y in loader:
        pred = net(x.to(device)).argmax(1).cpu()
        hit += (pred == y).sum().item()
        n += y.numel()
    return hit / n


def run(teacher_path, device="cuda"):
    teacher = build_teacher(teacher_path, device)
    student = models.mobilenet_v3_small(num_classes=CFG["classes"]).to(device)
    crit = DistillLoss(CFG["temperature"], CFG["alpha"])
    opt = torch.optim.SGD(student.parameters(), CFG["lr"], momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, CFG["epochs"])
    train, val = build_loaders()
    best = 0.0
    for epoch in range(CFG["epochs"]):
        student.train()
        for x, y in train:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with torch.no_grad():
                t_logits = teacher(x)
            loss = crit(student(x), t_logits, y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        sched.step()
        acc = accuracy(student, val, device)
        log.info("epoch %d acc %.4f", epoch, acc)
        if acc > best:
            best = acc
            torch.save(student.state_dict(), "student_best.pt")
    return best


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    run("teacher_r50.pt")
