import torch
import torch.nn as nn
import torch.nn.functional as F

from loop import Loop


class ESPCN(nn.Module):
    def __init__(self, scale=3):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Dropout2d(0.05), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh())
        self.up = nn.Sequential(nn.Conv2d(32, scale**2, 3, padding=1), nn.PixelShuffle(scale))

    def forward(self, x):
        return self.up(self.body(x))


def main(train_loader, valid_loader, device=torch.device("cuda")):
    net = ESPCN().to(device)
    opt = torch.optim.Adam(net.parameters(), 1e-3)

    def step(batch):
        low, high = batch
        loss = F.mse_loss(net(low), high)
        loss.backward()
        opt.step()
        return loss.detach()

    loop = Loop(step, train_loader, device)

    @loop.on("epoch")
    def start(epoch):
        net.train()

    @loop.on("before")
    def clear(batch):
        opt.zero_grad(set_to_none=True)

    @loop.on("validate")
    @torch.no_grad()
    def validate(epoch):
        net.eval()
        mse = torch.stack([F.mse_loss(net(low.to(device)), high.to(device)) for low, high in valid_loader]).mean()
        print(epoch, (-10 * torch.log10(mse.clamp_min(1e-10))).item())

    loop.run(100)
