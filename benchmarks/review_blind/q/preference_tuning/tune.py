"""Preference tuning loop."""
import copy
import math

import torch
from torch.utils.data import DataLoader

from collate import PairCollator
from objective import PreferenceLoss, sequence_logps


def forward_logps(model, batch):
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    return sequence_logps(logits, batch["labels"])


def cosine(step, warmup, total):
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))


def tune(model, tokenizer, dataset, epochs=1, batch_size=8, lr=5e-7, beta=0.1, device="cuda"):
    model = model.to(device)
    reference = copy.deepcopy(model).eval().requires_grad_(False)
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True, drop_last=True,
                        collate_fn=PairCollator(tokenizer), num_workers=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    total = epochs * len(loader)
    warmup = max(1, total // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: cosine(s, warmup, total))
    objective = PreferenceLoss(beta)
    step = 0
    for _ in range(epochs):
        model.train()
        for batch in loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
                ref = forward_logps(reference, batch)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                policy = forward_logps(model, batch)
            loss, stats = objective(policy, ref)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            optimizer.step()
            schedule.step()
            step += 1
            if step % 20 == 0:
                print(step, loss.item(), {k: v.item() for k, v in stats.items()})
    return model
