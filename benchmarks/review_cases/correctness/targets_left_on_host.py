import torch
import torch.nn as nn
import torchvision.models.segmentation as seg
from torch.utils.data import DataLoader


class Trainer:
    """Fine-tunes DeepLab for road scenes."""

    def __init__(self, dataset, classes, lr=1e-4):
        self.device = torch.device("cuda:0")
        self.model = seg.deeplabv3_resnet50(num_classes=classes).to(self.device)
        self.loader = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=8, pin_memory=True, drop_last=True)
        self.loss_fn = nn.CrossEntropyLoss(ignore_index=255)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)

    def train_one_epoch(self, epoch):
        self.model.train()
        running = torch.zeros((), device=self.device)
        for i, (img, target) in enumerate(self.loader):
            img = img.to(self.device, non_blocking=True)
            self.optimizer.zero_grad()
            out = self.model(img)["out"]
            loss = self.loss_fn(out, target)  # expect: ESP104
            loss.backward()
            self.optimizer.step()
            running += loss.detach()
            if i % 50 == 49:
                print(f"{epoch} {i}: {running.item() / (i + 1):.4f}")

    def fit(self, epochs):
        for epoch in range(epochs):
            self.train_one_epoch(epoch)
            torch.save({"model": self.model.state_dict(), "epoch": epoch}, "deeplab.pt")
