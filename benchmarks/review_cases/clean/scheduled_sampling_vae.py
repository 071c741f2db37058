import torch
import torch.nn as nn
import torch.nn.functional as F


class SentenceVAE(nn.Module):
    """Initial states and noise are made from the inputs, so they follow them."""

    def __init__(self, vocab, emb=256, hidden=512, latent=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.enc, self.dec = nn.GRU(emb, hidden, batch_first=True), nn.GRU(emb, hidden, batch_first=True)
        self.mu, self.lv, self.h0, self.out = nn.Linear(hidden, latent), nn.Linear(hidden, latent), nn.Linear(latent, hidden), nn.Linear(hidden, vocab)
        self.latent = latent

    def forward(self, ids, drop=0.25):
        e = self.emb(ids)
        h0 = e.new_zeros(1, ids.size(0), self.enc.hidden_size)
        _, h = self.enc(e, h0)
        mu, lv = self.mu(h[-1]), self.lv(h[-1])
        z = mu + torch.empty_like(mu).normal_() * (lv / 2).exp()
        keep = torch.rand(ids.shape, device=ids.device) > drop
        y, _ = self.dec(self.emb(ids * keep), self.h0(z).unsqueeze(0))
        return self.out(y), mu, lv

    @torch.no_grad()
    def sample(self, n, steps, bos=1):
        was = self.training
        self.eval()
        w = self.out.weight
        h = self.h0(torch.randn(n, self.latent, device=w.device, dtype=w.dtype)).unsqueeze(0)
        token = torch.full((n, 1), bos, device=w.device)
        rows = [token]
        for _ in range(steps):
            y, h = self.dec(self.emb(token), h)
            token = self.out(y).argmax(-1)
            rows.append(token)
        self.train(was)
        return torch.cat(rows, 1)


def train(model, loader, device, epochs=20, warm=10_000):
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    model.to(device).train()
    step = 0
    for epoch in range(epochs):
        for ids in loader:
            ids = ids.to(device)
            logits, mu, lv = model(ids)
            rec = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
            kl = -0.5 * (1 + lv - mu**2 - lv.exp()).sum(-1).mean()
            loss = rec + min(1.0, step / warm) * kl
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
        print(epoch, loss.item(), model.sample(2, 20).tolist())
