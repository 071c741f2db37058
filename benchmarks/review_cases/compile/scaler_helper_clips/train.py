import torch
import torch.nn.functional as F
from torchvision.models.video import r3d_18

from amp import MixedPrecision


def train(loader, epochs=45, device="cuda"):
    model = r3d_18(num_classes=400).to(device)
    opt = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
    mp = MixedPrecision(opt, max_norm=40.0)
    model.train()
    for epoch in range(epochs):
        for i, (clip, label) in enumerate(loader):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(model(clip.to(device, non_blocking=True)), label.to(device, non_blocking=True))
            mp.step(loss, model.parameters())
            if i % 100 == 0:
                print(epoch, i, loss.item())
