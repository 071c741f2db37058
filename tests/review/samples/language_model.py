"""Trains a language model: mixed precision, accumulation, compiled, generation at the end."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.qkv(x).split(C, dim=2)
        q, k, v = (each.view(B, T, self.heads, C // self.heads).transpose(1, 2) for each in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        mask = torch.tril(torch.ones(T, T, dtype=torch.bool, device=x.device))
        weights = F.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(B, T, C))


class LanguageModel(nn.Module):
    def __init__(self, vocabulary, width=128, heads=4, depth=4, dropout=0.1):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList([Attention(width, heads) for _ in range(depth)])
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, idx, targets=None):
        x = self.drop(self.embed(idx))
        for block in self.blocks:
            x = x + block(x)
        logits = self.head(x)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

    @torch.no_grad()
    def generate(self, idx, steps, temperature=1.0, top_k=None):
        for _ in range(steps):
            logits, _ = self(idx)
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                values, _ = torch.topk(logits, top_k)
                logits[logits < values[:, [-1]]] = -float("inf")
            following = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
            idx = torch.cat((idx, following), dim=1)
        return idx


@torch.no_grad()
def estimate_loss(model, get_batch, rounds=20):
    out = {}
    model.eval()
    for split in ("train", "val"):
        losses = torch.zeros(rounds)
        for k in range(rounds):
            _, loss = model(*get_batch(split))
            losses[k] = loss.item()
        out[split] = losses.mean()
    model.train()
    return out


def main(get_batch, device="cuda", steps=1000, accumulate=4):
    model = LanguageModel(512).to(device)
    scaler = torch.amp.GradScaler(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    model = torch.compile(model)
    for step in range(steps):
        if step % 100 == 0:
            losses = estimate_loss(model, get_batch)
            print(f"step {step}: {losses['train']:.3f} {losses['val']:.3f}")
        for _ in range(accumulate):
            with torch.autocast(device):
                _, loss = model(*get_batch("train"))
                loss = loss / accumulate
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        if step % 10 == 0:
            print(step, loss.item() * accumulate)
    torch.save(model.state_dict(), "model.pt")
