"""Extract features once without gradients, then train a linear probe in evaluation mode of the backbone."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from transformers import AutoImageProcessor, AutoModel


class Extractor:
    def __init__(self, name="facebook/dinov2-small", device="cuda"):
        self.processor = AutoImageProcessor.from_pretrained(name)
        self.model = AutoModel.from_pretrained(name).to(device)
        self.device = device

    @torch.inference_mode()
    def __call__(self, loader):
        # from_pretrained hands the model out in evaluation mode.
        feats, labels = [], []
        for images, y in loader:
            pixels = self.processor(images=images, return_tensors="pt")["pixel_values"].to(self.device)
            feats.append(self.model(pixel_values=pixels).last_hidden_state[:, 0].float().cpu())
            labels.append(y)
        return torch.cat(feats), torch.cat(labels)


def probe(x, y, classes, epochs=100, device="cuda"):
    head = nn.Linear(x.size(1), classes).to(device)
    opt = torch.optim.AdamW(head.parameters(), 1e-3, weight_decay=1e-2)
    for _ in range(epochs):
        for xb, yb in DataLoader(TensorDataset(x, y), 1024, shuffle=True):
            loss = F.cross_entropy(head(xb.to(device)), yb.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
    return head


@torch.inference_mode()
def accuracy(head, x, y, device="cuda"):
    return (head(x.to(device)).argmax(-1).cpu() == y).float().mean().item()


def main(train_loader, test_loader, classes):
    extract = Extractor()
    head = probe(*extract(train_loader), classes)
    print(accuracy(head, *extract(test_loader)))
