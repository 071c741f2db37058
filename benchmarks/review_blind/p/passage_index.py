"""Dense passage retrieval: encode, index and evaluate recall."""
import argparse
import json

import torch
import torch.nn.functional as F
from transformers import AutoModel, AutoTokenizer


def read_jsonl(path):
    with open(path, encoding="utf8") as fh:
        return [json.loads(line) for line in fh if line.strip()]


class Embedder:
    def __init__(self, name, device, max_len=256):
        self.tok = AutoTokenizer.from_pretrained(name)
        self.model = AutoModel.from_pretrained(name).to(device).eval()
        self.device, self.max_len = device, max_len

    @staticmethod
    def pool(hidden, mask):
        m = mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * m).sum(dim=1) / m.sum(dim=1).clamp(min=1e-6)

    @torch.inference_mode()
    def encode(self, texts, batch=128):
        out = []
        for i in range(0, len(texts), batch):
            enc = self.tok(texts[i:i + batch], padding=True, truncation=True,
                           max_length=self.max_len, return_tensors="pt").to(self.device)
            h = self.model(**enc).last_hidden_state
            out.append(F.normalize(self.pool(h, enc["attention_mask"]), dim=-1))
        return torch.cat(out)


class PassageIndex:
    def __init__(self, vectors, ids):
        self.vectors = vectors
        self.ids = ids

    def score_one(self, q):
        scores = []
        for row in self.vectors:
            scores.append(torch.dot(row, q).item())
        return scores

    def search(self, queries, k):
        hits = []
        for q in queries:
            scores = torch.tensor(self.score_one(q))
            top = scores.topk(min(k, len(scores)))
            hits.append([(self.ids[j], s) for s, j in zip(top.values.tolist(), top.indices.tolist())])
        return hits


def recall_at(hits, gold, ks=(1, 5, 20)):
    res = {}
    for k in ks:
        ok = sum(any(pid in g for pid, _ in h[:k]) for h, g in zip(hits, gold))
        res[f"recall@{k}"] = ok / len(gold)
    return res


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--model", default="intfloat/e5-small-v2")
    ap.add_argument("--passages", required=True)
    ap.add_argument("--queries", required=True)
    ap.add_argument("--k", type=int, default=20)
    args = ap.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    emb = Embedder(args.model, device)
    passages, queries = read_jsonl(args.passages), read_jsonl(args.queries)
    vecs = emb.encode(["passage: " + p["text"] for p in passages])
    index = PassageIndex(vecs, [p["id"] for p in passages])
    q = emb.encode(["query: " + r["question"] for r in queries])
    hits = index.search(q, args.k)
    for name, value in recall_at(hits, [set(r["positives"]) for r in queries]).items():
        print(f"{name}: {value:.4f}")


if __name__ == "__main__":
    main()
