"""Class prototypes are recomputed from the features of the whole epoch."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PrototypeTrainer:
    def __init__(self, backbone, classes, dim=128, device="cuda", momentum=0.9):
        self.backbone = backbone.to(device)
        self.head = nn.Linear(dim, classes).to(device)
        self.prototypes = torch.zeros(classes, dim, device=device)
        self.classes, self.device, self.momentum = classes, device, momentum
        self.optimizer = torch.optim.SGD(
            [*self.backbone.parameters(), *self.head.parameters()], lr=0.03, momentum=0.9, weight_decay=1e-4
        )

    def epoch(self, loader):
        self.backbone.train()
        features, labels = [], []
        for image, label in loader:
            image, label = image.to(self.device), label.to(self.device)
            z = self.backbone(image)
            loss = F.cross_entropy(self.head(z), label)
            pull = 1 - F.cosine_similarity(z, self.prototypes[label], dim=1).mean()
            self.optimizer.zero_grad()
            (loss + 0.1 * pull).backward()
            self.optimizer.step()
            features.append(z)  # expect: ESP303
            labels.append(label)
        self.refresh(torch.cat(features), torch.cat(labels))

    @torch.no_grad()
    def refresh(self, features, labels):
        onehot = F.one_hot(labels, self.classes).to(features.dtype)
        means = onehot.t() @ features / onehot.sum(0).clamp(min=1).unsqueeze(1)
        self.prototypes.mul_(self.momentum).add_(means, alpha=1 - self.momentum)
