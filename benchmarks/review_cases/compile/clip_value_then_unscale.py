import argparse

import torch
import torch.nn.functional as F
from torch.nn.utils import clip_grad_value_
from transformers import AutoModelForTokenClassification


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--lr", type=float, default=5e-5)
    p.add_argument("--clip", type=float, default=0.5)
    p.add_argument("--amp", action="store_true")
    return p.parse_args()


def train(loader, args, device="cuda"):
    model = AutoModelForTokenClassification.from_pretrained("distilbert-base-cased", num_labels=9).to(device)
    opt = torch.optim.AdamW(model.parameters(), args.lr)
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
    model.train()
    for batch in loader:
        batch = {k: v.to(device) for k, v in batch.items()}
        opt.zero_grad()
        with torch.autocast("cuda", torch.float16, enabled=args.amp):
            logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
            loss = F.cross_entropy(logits.flatten(0, 1).float(), batch["labels"].flatten(), ignore_index=-100)
        scaler.scale(loss).backward()
        clip_grad_value_(model.parameters(), args.clip)  # expect: ESP503
        scaler.unscale_(opt)
        scaler.step(opt)
        scaler.update()
    return model
