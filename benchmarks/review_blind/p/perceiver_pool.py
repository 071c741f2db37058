"""Document encoder: padded tokens -> latent queries, three attention APIs side by side."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CrossAttend(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h = heads
        self.q, self.kv, self.o = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        self.nq, self.nk = nn.LayerNorm(d), nn.LayerNorm(d)

    def split(self, x):
        b, n, d = x.shape
        return x.view(b, n, self.h, d // self.h).transpose(1, 2)

    def forward(self, lat, x, keep):
        q = self.split(self.q(self.nq(lat)))
        k, v = (self.split(t) for t in self.kv(self.nk(x)).chunk(2, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, None, :])
        return lat + self.o(y.transpose(1, 2).flatten(2))


class LatentSelf(nn.Module):
    def __init__(self, d, heads, p):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = nn.MultiheadAttention(d, heads, dropout=p, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Dropout(p), nn.Linear(4 * d, d))

    def forward(self, x):
        h = self.n1(x)
        x = x + self.att(h, h, h, need_weights=False)[0]
        return x + self.ff(self.n2(x))


class DocEncoder(nn.Module):
    def __init__(self, vocab, d=256, heads=8, n_latents=32, depth=4, max_len=2048, p=0.1):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d, padding_idx=0), nn.Embedding(max_len, d)
        layer = nn.TransformerEncoderLayer(d, heads, 2 * d, p, batch_first=True, norm_first=True)
        self.local = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.latents = nn.Parameter(torch.randn(n_latents, d) * 0.02)
        self.cross = nn.ModuleList([CrossAttend(d, heads) for _ in range(depth)])
        self.selfs = nn.ModuleList([LatentSelf(d, heads, p) for _ in range(depth)])
        self.norm = nn.LayerNorm(d)

    def forward(self, ids, attention_mask):
        keep = attention_mask.bool()
        x = self.emb(ids) + self.pos.weight[:ids.size(1)]
        x = self.local(x, src_key_padding_mask=~keep)
        lat = self.latents.expand(ids.size(0), -1, -1)
        for cross, self_att in zip(self.cross, self.selfs):
            lat = self_att(cross(lat, x, keep))
        return self.norm(lat).mean(dim=1)


class PairScorer(nn.Module):
    """Symmetric in-batch contrastive objective over (query, document) pairs."""

    def __init__(self, encoder, dim=256):
        super().__init__()
        self.encoder = encoder
        self.proj = nn.Linear(dim, dim, bias=False)
        self.log_scale = nn.Parameter(torch.tensor(2.6593))

    def embed(self, batch):
        return F.normalize(self.proj(self.encoder(**batch)), dim=-1)

    def forward(self, q, d):
        scale = self.log_scale.clamp(max=4.6052).exp()
        logits = scale * self.embed(q) @ self.embed(d).mT
        target = torch.arange(logits.size(0), device=logits.device)
        return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target))


def fit(loader, vocab, steps, device):
    torch.manual_seed(10)
    model = PairScorer(DocEncoder(vocab)).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 2e-4, total_steps=steps)
    model.train()
    done = 0
    while done < steps:
        for q, d in loader:
            q = {k: v.to(device) for k, v in q.items()}
            d = {k: v.to(device) for k, v in d.items()}
            loss = model(q, d)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            if done % 100 == 0:
                print(done, f"{loss.item():.4f}")
            done += 1
            if done == steps:
                break
    return model
