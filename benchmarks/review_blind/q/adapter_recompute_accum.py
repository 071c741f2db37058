"""Bottleneck adapters on a frozen encoder: recomputation and accumulation."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Adapter(nn.Module):
    def __init__(self, dim, bottleneck=64):
        super().__init__()
        self.down, self.up = nn.Linear(dim, bottleneck), nn.Linear(bottleneck, dim)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, x):
        return x + self.up(F.gelu(self.down(x)))


class AdaptedLayer(nn.Module):
    def __init__(self, layer, dim):
        super().__init__()
        self.layer, self.adapter = layer, Adapter(dim)

    def forward(self, x, pad):
        return self.adapter(self.layer(x, src_key_padding_mask=pad))


class TokenTagger(nn.Module):
    def __init__(self, vocab, n_tags, dim=768, heads=12, depth=12, pad_id=0):
        super().__init__()
        self.pad_id = pad_id
        self.embed = nn.Embedding(vocab, dim, padding_idx=pad_id)
        self.pos = nn.Embedding(512, dim)
        self.layers = nn.ModuleList(
            AdaptedLayer(nn.TransformerEncoderLayer(dim, heads, 4 * dim, batch_first=True,
                                                    norm_first=True), dim)
            for _ in range(depth))
        self.head = nn.Linear(dim, n_tags)

    def freeze_base(self):
        self.requires_grad_(False)
        for layer in self.layers:
            layer.adapter.requires_grad_(True)
        self.head.requires_grad_(True)
        return [p for p in self.parameters() if p.requires_grad]

    def forward(self, ids):
        pad = ids == self.pad_id
        x = self.embed(ids) + self.pos.weight[:ids.size(1)]
        for layer in self.layers:
            if self.training:
                x = checkpoint(layer, x, pad, use_reentrant=False)
            else:
                x = layer(x, pad)
        return self.head(x)


def grouped(loader, size):
    group = []
    for batch in loader:
        group.append(batch)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def train(model, loader, epochs, accumulate=8, lr=1e-3, device="cuda"):
    params = model.to(device).freeze_base()
    optimizer = torch.optim.AdamW(params, lr=lr)
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(epochs):
        model.train()
        for group in grouped(loader, accumulate):
            tokens = sum(int((tags != -100).sum()) for _, tags in group)
            total = torch.zeros((), device=device)
            for ids, tags in group:
                ids, tags = ids.to(device), tags.to(device)
                with torch.autocast("cuda", dtype=torch.float16):
                    logits = model(ids)
                loss = F.cross_entropy(logits.float().flatten(0, 1), tags.flatten(),
                                       ignore_index=-100, reduction="sum") / max(tokens, 1)
                scaler.scale(loss).backward()
                total += loss.detach()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(params, 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
        print(f"epoch {epoch} last loss {total.item():.4f}")
