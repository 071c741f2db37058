import torch
import torch.nn as nn
import torch.nn.functional as F

from meters import AverageMeter


class TwoTower(nn.Module):
    def __init__(self, image_encoder, text_encoder, dim=512):
        super().__init__()
        self.image_encoder, self.text_encoder = image_encoder, text_encoder
        self.logit_scale = nn.Parameter(torch.tensor(2.659))
        self.image_proj, self.text_proj = nn.LazyLinear(dim), nn.LazyLinear(dim)

    def forward(self, images, texts):
        i = F.normalize(self.image_proj(self.image_encoder(images)), dim=-1)
        t = F.normalize(self.text_proj(self.text_encoder(texts)), dim=-1)
        return self.logit_scale.exp() * i @ t.t()


def train_epoch(model, loader, optimizer, device, epoch):
    model.train()
    meter = AverageMeter("contrastive")
    for step, (images, texts) in enumerate(loader):
        logits = model(images.to(device), texts.to(device))
        target = torch.arange(logits.size(0), device=device)
        loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        meter.update(loss, images.size(0))  # expect: ESP301 @m
        if step % 100 == 0:
            print(f"{epoch}/{step} {float(meter.avg):.3f}")
    return float(meter.avg)
