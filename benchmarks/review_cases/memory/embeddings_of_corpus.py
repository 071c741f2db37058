"""Encode a text corpus with a sentence transformer and write the vectors."""
import argparse
import json

import numpy as np
import torch
import torch.nn.functional as F
from transformers import AutoModel, AutoTokenizer


def mean_pool(hidden, mask):
    mask = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)


class Encoder:
    def __init__(self, name, device):
        self.tok = AutoTokenizer.from_pretrained(name)
        self.model = AutoModel.from_pretrained(name).to(device)
        self.model.eval()
        self.device = device

    def encode(self, texts, batch_size=64):
        vectors = []
        for start in range(0, len(texts), batch_size):
            enc = self.tok(texts[start : start + batch_size], padding=True, truncation=True, return_tensors="pt").to(self.device)
            out = self.model(**enc)  # expect: ESP302
            vectors.append(F.normalize(mean_pool(out.last_hidden_state, enc["attention_mask"]), dim=-1).detach().cpu())
        return torch.cat(vectors).numpy()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("corpus")
    ap.add_argument("--model", default="sentence-transformers/all-MiniLM-L6-v2")
    args = ap.parse_args()
    with open(args.corpus) as handle:
        texts = [json.loads(line)["text"] for line in handle]
    np.save("vectors.npy", Encoder(args.model, "cuda" if torch.cuda.is_available() else "cpu").encode(texts))


if __name__ == "__main__":
    main()
