import torch
import torchvision
from torch.utils.data import DataLoader

from progress import Progress


def collate(batch):
    return tuple(zip(*batch))


def main(dataset, epochs=12, classes=21):
    device = torch.device("cuda")
    model = torchvision.models.detection.fcos_resnet50_fpn(weights=None, num_classes=classes).to(device)
    loader = DataLoader(dataset, 4, shuffle=True, num_workers=8, collate_fn=collate, pin_memory=True)
    opt = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
    for epoch in range(epochs):
        model.train()
        progress = Progress(len(loader))
        for images, targets in loader:
            images = [im.to(device, non_blocking=True) for im in images]
            targets = [{k: v.to(device) for k, v in t.items()} for t in targets]
            losses = model(images, targets)
            loss = sum(losses.values())
            opt.zero_grad()
            loss.backward()
            opt.step()
            progress.step(loss)  # expect: ESP305 @p
