"""Fine-tune a HF encoder on document topics with micro-batches."""
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, get_linear_schedule_with_warmup


@dataclass
class Args:
    model_name: str = "roberta-base"
    train: str = "train.jsonl"
    dev: str = "dev.jsonl"
    n_labels: int = 14
    micro_batch: int = 8
    accum: int = 4
    epochs: int = 3
    lr: float = 2e-5
    max_len: int = 384


class Docs(Dataset):
    def __init__(self, path):
        self.rows = [json.loads(l) for l in Path(path).read_text().splitlines() if l]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        r = self.rows[i]
        return r["text"], int(r["label"])


class Collator:
    def __init__(self, tok, max_len):
        self.tok, self.max_len = tok, max_len

    def __call__(self, batch):
        texts, labels = zip(*batch)
        enc = self.tok(list(texts), truncation=True, max_length=self.max_len,
                       padding=True, return_tensors="pt")
        enc["labels"] = torch.tensor(labels)
        return enc


class FineTuner:
    def __init__(self, args, device):
        self.args, self.device = args, device
        tok = AutoTokenizer.from_pretrained(args.model_name)
        coll = Collator(tok, args.max_len)
        self.train_dl = DataLoader(Docs(args.train), args.micro_batch, shuffle=True,
                                   collate_fn=coll, num_workers=2, drop_last=True)
        self.dev_dl = DataLoader(Docs(args.dev), 32, collate_fn=coll, num_workers=2)
        self.model = AutoModelForSequenceClassification.from_pretrained(
            args.model_name, num_labels=args.n_labels).to(device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=args.lr, weight_decay=0.01)
        updates = len(self.train_dl) // args.accum * args.epochs
        self.sched = get_linear_schedule_with_warmup(self.opt, updates // 10, updates)

    def forward_loss(self, batch):
        self.opt.zero_grad(set_to_none=True)
        batch = {k: v.to(self.device, non_blocking=True) for k, v in batch.items()}
        return self.model(**batch).loss / self.args.accum

    def train_epoch(self):
        self.model.train()
        n_used = len(self.train_dl) // self.args.accum * self.args.accum
        for i, batch in enumerate(self.train_dl):
            if i >= n_used:
                break
            self.forward_loss(batch).backward()
            if (i + 1) % self.args.accum == 0:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.opt.step()
                self.sched.step()

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        hit = n = 0
        for batch in self.dev_dl:
            batch = {k: v.to(self.device) for k, v in batch.items()}
            y = batch.pop("labels")
            pred = self.model(**batch).logits.argmax(dim=-1)
            hit += (pred == y).sum().item()
            n += y.numel()
        return hit / n


if __name__ == "__main__":
    torch.manual_seed(0)
    args = Args()
    ft = FineTuner(args, torch.device("cuda"))
    for ep in range(args.epochs):
        ft.train_epoch()
        print(f"epoch {ep} acc {ft.evaluate():.4f}")
    ft.model.save_pretrained("topics-roberta")
