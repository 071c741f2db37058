"""Old DCGAN-ish code base that still runs, with warnings."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.init as init
from torch.nn.utils import clip_grad_norm, weight_norm


class Upsampler(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = weight_norm(nn.Conv2d(cin, cout, 3, padding=1))  # expect: ESP512

    def forward(self, x):
        x = F.upsample(x, scale_factor=2, mode="nearest")  # expect: ESP512
        return F.leaky_relu(self.conv(x), 0.2)


def init_weights(m):
    if isinstance(m, nn.Linear):
        init.xavier_uniform(m.weight)  # expect: ESP512
        init.constant_(m.bias, 0)


class Decoder(nn.Module):
    def __init__(self, z=64, ch=64):
        super().__init__()
        self.fc = nn.Linear(z, ch * 16)
        self.ups = nn.Sequential(Upsampler(ch, ch), Upsampler(ch, ch // 2), Upsampler(ch // 2, 3))
        self.ch = ch
        self.apply(init_weights)

    def forward(self, z):
        return torch.tanh(self.ups(self.fc(z).view(-1, self.ch, 4, 4)))


def step(model, z, target, opt):
    loss = nn.MSELoss(size_average=True)(model(z), target)  # expect: ESP512
    opt.zero_grad()
    loss.backward()
    clip_grad_norm(model.parameters(), 1.0)  # expect: ESP512
    opt.step()
    return loss.detach()


def grid(n):
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, n), torch.linspace(-1, 1, n))  # allow: ESP512
    return torch.stack([xs, ys])


def span(a, b):
    return torch.range(a, b)  # expect: ESP512
