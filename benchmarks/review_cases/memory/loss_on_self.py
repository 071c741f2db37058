from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F


class CycleGANTrainer:
    def __init__(self, g_ab, g_ba, d_a, d_b, device):
        self.g_ab, self.g_ba, self.d_a, self.d_b = (m.to(device) for m in (g_ab, g_ba, d_a, d_b))
        self.device = device
        self.g_opt = torch.optim.Adam([*g_ab.parameters(), *g_ba.parameters()], 2e-4, betas=(0.5, 0.999))
        self.d_opt = torch.optim.Adam([*d_a.parameters(), *d_b.parameters()], 2e-4, betas=(0.5, 0.999))
        self.total_g = 0.0
        self.curves = defaultdict(list)

    def generator_step(self, a, b):
        self.g_opt.zero_grad()
        fake_b, fake_a = self.g_ab(a), self.g_ba(b)
        pred_a, pred_b = self.d_a(fake_a), self.d_b(fake_b)
        adv = F.mse_loss(pred_a, torch.ones_like(pred_a)) + F.mse_loss(pred_b, torch.ones_like(pred_b))
        cyc = F.l1_loss(self.g_ba(fake_b), a) + F.l1_loss(self.g_ab(fake_a), b)
        loss = adv + 10 * cyc
        loss.backward()
        self.g_opt.step()
        self.total_g += loss  # expect: ESP301
        return fake_a.detach(), fake_b.detach()

    def discriminator_step(self, a, b, fake_a, fake_b):
        self.d_opt.zero_grad()
        loss = torch.zeros((), device=self.device)
        for d, real, fake in ((self.d_a, a, fake_a), (self.d_b, b, fake_b)):
            r, f = d(real), d(fake)
            loss = loss + F.mse_loss(r, torch.ones_like(r)) + F.mse_loss(f, torch.zeros_like(f))
        loss.backward()
        self.d_opt.step()
        self.curves["d"].append(loss.detach())

    def epoch(self, loader):
        for a, b in loader:
            a, b = a.to(self.device), b.to(self.device)
            self.discriminator_step(a, b, *self.generator_step(a, b))
        print(f"g {float(self.total_g) / len(loader):.3f}")
