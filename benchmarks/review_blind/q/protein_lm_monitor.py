"""Masked protein language model with per-tensor gradient telemetry."""
import json
import time
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, MASK = 0, 1


class ProteinEncoder(nn.Module):
    def __init__(self, vocab=33, dim=768, heads=12, depth=24, max_len=1024):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.pos = nn.Embedding(max_len, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, norm=nn.LayerNorm(dim),
                                             enable_nested_tensor=False)
        self.out = nn.Linear(dim, vocab)

    def forward(self, tokens):
        pad = tokens == PAD
        x = self.tok(tokens) + self.pos(torch.arange(tokens.size(1), device=tokens.device))
        return self.out(self.encoder(x, src_key_padding_mask=pad))


def corrupt(tokens, ratio=0.15):
    chosen = (torch.rand(tokens.shape, device=tokens.device) < ratio) & (tokens != PAD)
    labels = torch.where(chosen, tokens, torch.full_like(tokens, -100))
    return torch.where(chosen, torch.full_like(tokens, MASK), tokens), labels


class Telemetry:
    def __init__(self, model, path, every=100):
        self.named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        self.path, self.every = path, every
        self.sums = defaultdict(float)
        self.count = 0

    def observe(self):
        for name, param in self.named:
            if param.grad is not None:
                self.sums[name + "/grad"] += param.grad.norm().item()
                self.sums[name + "/weight"] += param.detach().norm().item()
        self.count += 1

    def flush(self, step, extra):
        row = {k: v / max(self.count, 1) for k, v in self.sums.items()}
        row.update(extra, step=step)
        with open(self.path, "a") as handle:
            handle.write(json.dumps(row) + "\n")
        self.sums.clear()
        self.count = 0


def train(model, loader, total_steps, lr=4e-4, device="cuda", log="telemetry.jsonl"):
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01, fused=True)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=2000)
    telemetry = Telemetry(model, log)
    step, start = 0, time.time()
    while step < total_steps:
        for tokens in loader:
            inputs, labels = corrupt(tokens.to(device, non_blocking=True))
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = model(inputs)
            loss = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(),
                                   ignore_index=-100)
            loss.backward()
            telemetry.observe()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            warm.step()
            optimizer.zero_grad(set_to_none=True)
            step += 1
            if step % telemetry.every == 0:
                speed = step / (time.time() - start)
                telemetry.flush(step, {"loss": loss.item(), "steps_per_s": speed})
            if step >= total_steps:
                break
