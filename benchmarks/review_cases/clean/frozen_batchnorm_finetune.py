"""Detector fine-tuning where the pretrained backbone stays frozen, statistics included."""
import torch
import torch.nn as nn
import torchvision


class FrozenBackboneClassifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.backbone = torchvision.models.resnet50(weights="IMAGENET1K_V2")
        self.backbone.fc = nn.Identity()
        self.backbone.requires_grad_(False)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(2048, classes))

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x):
        with torch.no_grad():
            feats = self.backbone(x)
        return self.head(feats)


def freeze_bn(module):
    for m in module.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.eval()


def fit(model, train_loader, val_loader, device, epochs):
    model.to(device)
    opt = torch.optim.SGD(model.head.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    ce = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        model.train()
        freeze_bn(model)
        for img, lab in train_loader:
            img, lab = img.to(device), lab.to(device)
            loss = ce(model(img), lab)
            opt.zero_grad()
            loss.backward()
            opt.step()
        model.eval()
        hits = torch.zeros((), dtype=torch.long, device=device)
        with torch.inference_mode():
            for img, lab in val_loader:
                hits += (model(img.to(device)).argmax(1) == lab.to(device)).sum()
        print(epoch, hits.item() / len(val_loader.dataset))
