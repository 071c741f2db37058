import torch
import torch.nn as nn

import checkpointing


class WavMLM(nn.Module):
    def __init__(self, dim=512, codes=504):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(1, dim, 10, 5), nn.GELU(), nn.Conv1d(dim, dim, 8, 4), nn.GELU(), nn.Conv1d(dim, dim, 4, 2), nn.GELU())
        self.mask = nn.Parameter(torch.empty(dim).uniform_())
        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(dim, 8, batch_first=True), 6)
        self.out = nn.Linear(dim, codes)

    def forward(self, wav, mask):
        x = self.conv(wav[:, None]).transpose(1, 2)
        x = torch.where(mask[..., None], self.mask, x)
        return self.out(self.enc(x))


def main(loader, folder="ckpt", device="cuda"):
    model = WavMLM().to(device)
    opt = torch.optim.AdamW(model.parameters(), 5e-4)
    step = checkpointing.restore(folder, model, opt)
    model.train()
    for wav, codes, mask in loader:
        logits = model(wav.to(device), mask.to(device))
        loss = nn.functional.cross_entropy(logits[mask.to(device)], codes.to(device)[mask.to(device)])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        step += 1
        if step % 5000 == 0:
            checkpointing.save(f"{folder}/step_{step:08d}.pt", model, opt, step)
