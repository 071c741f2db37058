"""Word-level LSTM language model, truncated BPTT over contiguous streams."""
import argparse
import math
from collections import Counter
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F


class Corpus:
    def __init__(self, folder, min_count=2):
        folder = Path(folder)
        words = {s: (folder / f"{s}.txt").read_text().replace("\n", " <eos> ").split()
                 for s in ("train", "valid", "test")}
        keep = [w for w, c in Counter(words["train"]).items() if c >= min_count]
        self.stoi = {w: i for i, w in enumerate(["<unk>"] + sorted(set(keep) - {"<unk>"}))}
        self.ids = {s: torch.tensor([self.stoi.get(w, 0) for w in ws]) for s, ws in words.items()}


class Streams:
    """Lays a token sequence out in parallel streams and walks them in order."""

    def __init__(self, ids, batch, bptt):
        n = ids.numel() // batch
        self.data = ids[:n * batch].view(batch, n).t().contiguous()
        self.bptt = bptt

    def __len__(self):
        return math.ceil((self.data.size(0) - 1) / self.bptt)

    def __iter__(self):
        last = self.data.size(0) - 1
        for s in range(0, last, self.bptt):
            e = min(s + self.bptt, last)
            yield self.data[s:e], self.data[s + 1:e + 1]


def repackage(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage(v) for v in h)


class WordLM(nn.Module):
    def __init__(self, vocab, d=400, layers=2, p=0.4):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.rnn = nn.LSTM(d, d, layers, dropout=p)
        self.drop = nn.Dropout(p)
        self.out = nn.Linear(d, vocab)
        self.out.weight = self.emb.weight
        nn.init.uniform_(self.emb.weight, -0.05, 0.05)

    def init_state(self, batch):
        w = self.emb.weight
        shape = (self.rnn.num_layers, batch, self.rnn.hidden_size)
        return w.new_zeros(shape), w.new_zeros(shape)

    def forward(self, x, state):
        y, state = self.rnn(self.drop(self.emb(x)), state)
        return self.out(self.drop(y)), state


def run(model, streams, device, opt=None, clip=0.25):
    model.train(opt is not None)
    state = model.init_state(streams.data.size(1))
    nll, tokens = torch.zeros((), device=device), 0
    with torch.set_grad_enabled(opt is not None):
        for x, y in streams:
            x, y = x.to(device), y.to(device)
            state = repackage(state)
            logits, state = model(x, state)
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.reshape(-1))
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), clip)
                opt.step()
            nll += loss.detach() * y.numel()
            tokens += y.numel()
    return (nll / tokens).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default="wikitext-2")
    ap.add_argument("--epochs", type=int, default=40)
    ap.add_argument("--lr", type=float, default=20.0)
    args = ap.parse_args()
    torch.manual_seed(1111)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    corpus = Corpus(args.data)
    train = Streams(corpus.ids["train"], 20, 35)
    valid = Streams(corpus.ids["valid"], 10, 35)
    model = WordLM(len(corpus.stoi)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.25, patience=0)
    for epoch in range(args.epochs):
        tr = run(model, train, device, opt)
        va = run(model, valid, device)
        sched.step(va)
        print(f"{epoch} train ppl {math.exp(tr):.1f} valid ppl {math.exp(va):.1f}")


if __name__ == "__main__":
    main()
