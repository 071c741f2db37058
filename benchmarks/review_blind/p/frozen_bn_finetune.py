"""Fine-tune a ResNet-50 for defect grading with small batches and frozen norm layers."""
import argparse
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, WeightedRandomSampler
from torchvision import models, transforms as T
from torchvision.datasets import ImageFolder

NORM_TYPES = (nn.BatchNorm2d,)


class DefectNet(nn.Module):
    def __init__(self, n_classes, freeze_stages=2):
        super().__init__()
        net = models.resnet50(weights=models.ResNet50_Weights.IMAGENET1K_V2)
        self.stem = nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool)
        self.stages = nn.ModuleList([net.layer1, net.layer2, net.layer3, net.layer4])
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(2048, n_classes)
        self.frozen = [self.stem, *self.stages[:freeze_stages]]
        for m in self.frozen:
            m.requires_grad_(False)
        for m in self.modules():
            if isinstance(m, NORM_TYPES):
                m.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        for m in self.modules():
            if isinstance(m, NORM_TYPES):
                m.eval()
        return self

    def forward(self, x):
        x = self.stem(x)
        for s in self.stages:
            x = s(x)
        return self.head(self.drop(x.mean(dim=(2, 3))))


def balanced_sampler(targets):
    t = torch.as_tensor(targets)
    freq = torch.bincount(t).double()
    return WeightedRandomSampler((1.0 / freq)[t], num_samples=len(t), replacement=True)


def loaders(root, batch):
    norm = T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    aug = T.Compose([T.RandomResizedCrop(320, (0.6, 1.0)), T.RandomHorizontalFlip(),
                     T.RandomVerticalFlip(), T.ToTensor(), norm])
    plain = T.Compose([T.Resize(352), T.CenterCrop(320), T.ToTensor(), norm])
    tr, va = ImageFolder(Path(root) / "train", aug), ImageFolder(Path(root) / "val", plain)
    return (DataLoader(tr, batch, sampler=balanced_sampler(tr.targets), num_workers=6),
            DataLoader(va, batch * 4, num_workers=4), tr.classes)


def train_epoch(model, loader, opt, device):
    model.train()
    total, n = torch.zeros((), device=device), 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        total += loss.detach() * len(y)
        n += len(y)
    return (total / n).item()


def macro_recall(model, loader, n_classes, device):
    model.eval()
    conf = torch.zeros(n_classes, n_classes, dtype=torch.long)
    with torch.inference_mode():
        for x, y in loader:
            p = model(x.to(device)).argmax(dim=1).cpu()
            conf.index_put_((y, p), torch.ones_like(y), accumulate=True)
    return (conf.diag() / conf.sum(dim=1).clamp(min=1)).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("root")
    ap.add_argument("--batch", type=int, default=6)
    ap.add_argument("--epochs", type=int, default=25)
    args = ap.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    tl, vl, classes = loaders(args.root, args.batch)
    model = DefectNet(len(classes)).to(device)
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.SGD(params, lr=2e-3, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode="max", patience=2)
    best = 0.0
    for epoch in range(args.epochs):
        loss = train_epoch(model, tl, opt, device)
        score = macro_recall(model, vl, len(classes), device)
        sched.step(score)
        print(f"{epoch} loss {loss:.4f} macro recall {score:.4f}")
        if score > best:
            best = score
            torch.save({"model": model.state_dict(), "classes": classes}, "defect.pt")


if __name__ == "__main__":
    main()
