import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.io import read_image

from features import FourierFeatures


class ImplicitImage(nn.Module):
    def __init__(self, dim=128, width=256):
        super().__init__()
        self.ff = FourierFeatures(dim)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3), nn.Sigmoid())

    def forward(self, coords):
        return self.mlp(self.ff(coords))


def main(path="cat.png", steps=2000):
    image = read_image(path).float().div(255).permute(1, 2, 0).cuda()
    h, w, _ = image.shape
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
    coords = torch.stack([xs, ys], -1).view(-1, 2).cuda()
    target = image.reshape(-1, 3)
    model = torch.compile(ImplicitImage().cuda())
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for step in range(steps):
        idx = torch.randint(len(coords), (65536,), device="cuda")
        loss = F.mse_loss(model(coords[idx]), target[idx])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    print(loss.item())


if __name__ == "__main__":
    main()
