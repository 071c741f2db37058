"""Masked image modelling; the whole step is compiled."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MIM(nn.Module):
    def __init__(self, dim=384, depth=6):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 16, 16)
        self.mask_token = nn.Parameter(torch.zeros(dim))
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(dim, 6, 4 * dim, batch_first=True) for _ in range(depth))
        self.head = nn.Linear(dim, 768)

    def forward(self, x, mask):
        tokens = self.patch(x).flatten(2).transpose(1, 2)
        tokens = torch.where(mask[..., None], self.mask_token, tokens)
        for block in self.blocks:
            tokens = block(tokens)
        return self.head(tokens)


@torch.compile
def loss_fn(model, x, mask, target):
    pred = model(x, mask)
    loss = F.smooth_l1_loss(pred[mask], target[mask])  # allow: ESP501
    print("loss", loss.item())  # expect: ESP501  # allow: ESP305
    if loss > 10:  # expect: ESP501
        loss = loss * 0.1
    return loss


def main(loader, device="cuda"):
    model = MIM().to(device)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    model.train()
    for x in loader:
        x = x.to(device)
        mask = torch.rand(x.size(0), 196, device=device) < 0.6
        target = F.unfold(x, 16, stride=16).transpose(1, 2)
        loss = loss_fn(model, x, mask, target)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
