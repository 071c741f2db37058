import torch
import torch.nn as nn
from torchvision.utils import save_image

from callbacks import SampleImages
from models import DnCNN


def train(loader, fixed, epochs=50, sigma=25 / 255, device="cuda"):
    model = DnCNN().to(device)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, [30], 0.2)
    mse = nn.MSELoss()
    sample = SampleImages(fixed.to(device))
    model.train()
    for epoch in range(epochs):  # expect: ESP103
        for clean in loader:
            clean = clean.to(device, non_blocking=True)
            noisy = clean + sigma * torch.randn_like(clean)
            loss = mse(model(noisy), clean)
            opt.zero_grad()
            loss.backward()
            opt.step()
        sched.step()
        images = sample(model, epoch)
        if images is not None:
            save_image(images, f"epoch_{epoch:03d}.png")
