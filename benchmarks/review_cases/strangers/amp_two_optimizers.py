"""Voice conversion: generator and discriminator under one gradient scaler."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def hinge(real, fake):
    return F.relu(1 - real).mean() + F.relu(1 + fake).mean()


class Converter:
    def __init__(self, generator, discriminator, device="cuda", clip=1.0):
        self.g, self.d = generator.to(device).train(), discriminator.to(device).train()
        self.g_opt = torch.optim.AdamW(self.g.parameters(), lr=2e-4, betas=(0.8, 0.99))
        self.d_opt = torch.optim.AdamW(self.d.parameters(), lr=2e-4, betas=(0.8, 0.99))
        self.device, self.clip = device, clip
        self.scaler = torch.amp.GradScaler(device, enabled=device == "cuda")

    def apply(self, loss, optimizer, module):
        optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(module.parameters(), self.clip)
        self.scaler.step(optimizer)

    def step(self, mel, speaker):
        mel, speaker = mel.to(self.device), speaker.to(self.device)
        with torch.autocast(self.device, dtype=torch.float16, enabled=self.device == "cuda"):
            fake = self.g(mel, speaker)
            d_loss = hinge(self.d(mel), self.d(fake.detach()))
        self.apply(d_loss, self.d_opt, self.d)
        with torch.autocast(self.device, dtype=torch.float16, enabled=self.device == "cuda"):
            g_loss = F.l1_loss(fake, mel) - 0.1 * self.d(fake).mean()
        self.apply(g_loss, self.g_opt, self.g)
        self.scaler.update()
        return d_loss.detach(), g_loss.detach()


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.speaker, self.net = nn.Embedding(4, 8), nn.Conv1d(8, 8, 3, padding=1)

    def forward(self, mel, speaker):
        return self.net(mel + self.speaker(speaker).unsqueeze(-1))


if __name__ == "__main__":
    converter = Converter(Toy(), nn.Conv1d(8, 1, 3), "cpu")
    print(converter.step(torch.randn(2, 8, 16), torch.tensor([0, 3])))
