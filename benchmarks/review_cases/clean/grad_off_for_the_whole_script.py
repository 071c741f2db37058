"""Scores sentences with a language model; this script never trains."""
import sys

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer

torch.set_grad_enabled(False)

tok = AutoTokenizer.from_pretrained("gpt2")
tok.pad_token = tok.eos_token
model = AutoModelForCausalLM.from_pretrained("gpt2").to("cuda")
model.eval()


def batched(lines, n):
    for i in range(0, len(lines), n):
        yield lines[i : i + n]


def log_likelihoods(lines):
    for chunk in batched(lines, 32):
        enc = tok(chunk, return_tensors="pt", padding=True, truncation=True).to("cuda")
        logits = model(**enc).logits[:, :-1].float()
        target = enc["input_ids"][:, 1:]
        logp = F.log_softmax(logits, -1).gather(-1, target.unsqueeze(-1)).squeeze(-1)
        mask = enc["attention_mask"][:, 1:]
        yield from ((logp * mask).sum(-1) / mask.sum(-1).clamp(min=1)).tolist()


if __name__ == "__main__":
    sentences = [line.strip() for line in sys.stdin if line.strip()]
    for sentence, score in zip(sentences, log_likelihoods(sentences)):
        print(f"{score:8.3f}\t{sentence}")
