from torch import nn
import torch
import torch.nn.functional as F


class SpectrogramEncoder(nn.Module):
    def __init__(self, d_model=256):
        super().__init__()
        self.frontend = nn.Sequential(
            nn.Conv2d(1, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),  # expect: ESP205
        )
        self.proj = nn.Linear(64 * 20, d_model)

    def forward(self, mel):
        h = self.frontend(mel.unsqueeze(1))
        b, c, f, t = h.shape
        return self.proj(h.permute(0, 3, 1, 2).reshape(b, t, c * f))


class Joiner(nn.Module):
    def __init__(self, d_model=256, vocab=500):
        super().__init__()
        self.pred = nn.GRU(d_model, d_model, batch_first=True)
        self.emb = nn.Embedding(vocab, d_model)
        self.out = nn.Linear(d_model, vocab)

    def forward(self, enc, labels):
        p, _ = self.pred(self.emb(labels))
        joint = F.relu(enc[:, :, None] + p[:, None])
        return self.out(joint)


def step(enc, join, batch, opt, rnnt_loss):
    logits = join(enc(batch["mel"].cuda()), batch["labels"].cuda())
    loss = rnnt_loss(logits, batch["labels"].cuda(), batch["mel_len"].cuda(), batch["label_len"].cuda())
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach()
