"""Seq2seq fine-tuning under DDP with gradient accumulation."""
import argparse
import contextlib
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, get_cosine_schedule_with_warmup

from pairs import PairDataset


class Collate:
    def __init__(self, tok, src_len=512, tgt_len=128):
        self.tok, self.src_len, self.tgt_len = tok, src_len, tgt_len

    def __call__(self, batch):
        src, tgt = zip(*batch)
        enc = self.tok(list(src), padding=True, truncation=True, max_length=self.src_len, return_tensors="pt")
        lab = self.tok(text_target=list(tgt), padding=True, truncation=True,
                       max_length=self.tgt_len, return_tensors="pt")["input_ids"]
        lab[lab == self.tok.pad_token_id] = -100
        return {"input_ids": enc["input_ids"], "attention_mask": enc["attention_mask"], "labels": lab}


def move(batch, device):
    return {k: v.to(device, non_blocking=True) for k, v in batch.items()}


def sequence_nll(logits, labels):
    """Mean over sequences of the per-token NLL of each sequence."""
    tok = F.cross_entropy(logits.float().transpose(1, 2), labels, ignore_index=-100, reduction="none")
    return (tok.sum(dim=1) / (labels != -100).sum(dim=1).clamp(min=1)).mean()


def train_epoch(model, loader, opt, sched, accum, device):
    model.train()
    running = torch.zeros((), device=device)
    opt.zero_grad(set_to_none=True)
    n = len(loader)
    for i, batch in enumerate(loader):
        last = (i + 1) % accum == 0 or i + 1 == n
        group = accum if i < n - n % accum else n % accum
        ctx = contextlib.nullcontext() if last else model.no_sync()
        with ctx:
            b = move(batch, device)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = model(**b).logits
            loss = sequence_nll(logits, b["labels"])
            (loss / group).backward()
        running += loss.detach()
        if last:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            opt.zero_grad(set_to_none=True)
    running /= n
    dist.all_reduce(running, op=dist.ReduceOp.AVG)
    return running.item()


@torch.no_grad()
def token_nll(model, loader, device):
    model.eval()
    acc = torch.zeros(2, dtype=torch.float64, device=device)
    for batch in loader:
        b = move(batch, device)
        n = (b["labels"] != -100).sum()
        acc[0] += model.module(**b).loss.double() * n
        acc[1] += n
    dist.all_reduce(acc)
    return (acc[0] / acc[1]).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--model", default="google/flan-t5-base")
    ap.add_argument("--accum", type=int, default=4)
    ap.add_argument("--epochs", type=int, default=3)
    args = ap.parse_args()
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    device = torch.device("cuda", local)
    torch.manual_seed(31 + dist.get_rank())
    tok = AutoTokenizer.from_pretrained(args.model)
    coll = Collate(tok)
    train, dev = PairDataset("train.tsv"), PairDataset("dev.tsv")
    sampler = DistributedSampler(train, shuffle=True, seed=31)
    tl = DataLoader(train, 8, sampler=sampler, collate_fn=coll, num_workers=2, drop_last=True)
    vl = DataLoader(torch.utils.data.Subset(dev, range(dist.get_rank(), len(dev), dist.get_world_size())),
                    16, collate_fn=coll)
    model = DDP(AutoModelForSeq2SeqLM.from_pretrained(args.model).to(device), device_ids=[local])
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    updates = -(-len(tl) // args.accum) * args.epochs
    sched = get_cosine_schedule_with_warmup(opt, updates // 20, updates)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        loss = train_epoch(model, tl, opt, sched, args.accum, device)
        nll = token_nll(model, vl, device)
        if dist.get_rank() == 0:
            print(f"epoch {epoch} loss {loss:.4f} dev nll {nll:.4f}")
            model.module.save_pretrained(f"t5_ep{epoch}")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
