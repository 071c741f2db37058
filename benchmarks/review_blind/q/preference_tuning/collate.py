"""Batching of preference pairs."""
import torch

IGNORE = -100


def encode(tokenizer, prompt, answer, max_len):
    p = tokenizer.encode(prompt)
    a = tokenizer.encode(answer, add_special_tokens=False) + [tokenizer.eos_token_id]
    ids = (p + a)[:max_len]
    labels = ([IGNORE] * len(p) + a)[:max_len]
    return ids, labels


def pad(rows, value):
    width = max(len(r) for r in rows)
    return torch.tensor([r + [value] * (width - len(r)) for r in rows])


class PairCollator:
    """First half of the batch: preferred answers; second half: rejected ones."""

    def __init__(self, tokenizer, max_len=1024):
        self.tokenizer, self.max_len = tokenizer, max_len

    def __call__(self, examples):
        ids, labels = [], []
        for key in ("chosen", "rejected"):
            for ex in examples:
                i, l = encode(self.tokenizer, ex["prompt"], ex[key], self.max_len)
                ids.append(i)
                labels.append(l)
        lengths = torch.tensor([len(i) for i in ids])
        input_ids = pad(ids, self.tokenizer.pad_token_id)
        mask = torch.arange(input_ids.size(1))[None] < lengths[:, None]
        return {"input_ids": input_ids, "attention_mask": mask.long(),
                "labels": pad(labels, IGNORE)}
