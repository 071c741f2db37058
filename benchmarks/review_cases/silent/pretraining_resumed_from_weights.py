"""Language model pretraining with checkpoints."""
import os
import torch
from torch import nn
import torch.nn.functional as F


def save_checkpoint(path, model, optimizer, scheduler, step):
    torch.save({
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "step": step,
    }, path)


def load_checkpoint(path, model, device):
    state = torch.load(path, map_location=device, weights_only=True)  # expect: ESP234 @resume
    model.load_state_dict(state["model"])
    return state["step"]


def train(model, data, args, device):
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    start = 0
    if args.resume and os.path.exists(args.resume):
        start = load_checkpoint(args.resume, model, device)  # expect: ESP234 @resume
    model.train()
    for step in range(start, args.steps):
        tokens = next(data).to(device)
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if step % args.save_every == 0:
            save_checkpoint(f"{args.out}/{step}.pt", model, optimizer, scheduler, step)
