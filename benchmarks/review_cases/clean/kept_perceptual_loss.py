import torch
from torch import nn
def stylise(image, target, steps):
    vgg = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Dropout())
    vgg.eval()
    image = image.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([image])
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (vgg(image) - target).pow(2).mean()
        loss.backward()
        optimizer.step()
    return image.detach()
