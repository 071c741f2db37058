import logging
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

logger = logging.getLogger("music")


class EventTransformer(nn.Module):
    def __init__(self, events=512, dim=768, depth=12, heads=12, context=2048):
        super().__init__()
        self.token, self.place = nn.Embedding(events, dim), nn.Embedding(context, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, 0.1, "gelu", batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(dim, events, bias=False)

    def forward(self, ids):
        n = ids.shape[1]
        x = self.token(ids) + self.place(torch.arange(n, device=ids.device))
        mask = nn.Transformer.generate_square_subsequent_mask(n, device=ids.device)
        return self.head(self.body(x, mask=mask, is_causal=True))


def pretrain(model, loader, steps, lr=3e-4, warmup=2000):
    device = torch.device("cuda")
    model = model.to(device)  # expect: ESP407
    opt = torch.optim.AdamW(model.parameters(), lr=lr, fused=True, weight_decay=0.1)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min((s + 1) / warmup, 0.5 * (1 + math.cos(math.pi * min(s / steps, 1))))
    )
    model.train()
    skipped = 0
    for step, ids in enumerate(loader):
        if step == steps:
            break
        ids = ids.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        if not torch.isfinite(loss):  # expect: ESP305
            skipped += 1
            continue
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        logger.info("step %d loss %s lr %.2e skipped %d", step, loss, sched.get_last_lr()[0], skipped)  # expect: ESP411 # allow: ESP305
    return model
