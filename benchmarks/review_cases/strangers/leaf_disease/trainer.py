import torch
from torch import nn

from models import LeafNet


class Trainer:
    def __init__(self, loaders, device="cuda", lr=1e-3):
        self.loaders, self.device = loaders, device
        self.model = LeafNet().to(device)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)

    def train_epoch(self):
        self.model.train()
        for leaf, disease in self.loaders["train"]:
            probabilities = self.model(leaf.to(self.device))
            loss = self.criterion(probabilities, disease.to(self.device))  # expect: ESP201 @soft
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        right = torch.zeros((), dtype=torch.long, device=self.device)
        for leaf, disease in self.loaders["valid"]:
            right += (self.model(leaf.to(self.device)).argmax(1) == disease.to(self.device)).sum()
        return right.item()
