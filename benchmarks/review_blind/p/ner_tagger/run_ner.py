import sys

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from collate import IGNORE, Sentences, Vocab, collate, read_conll
from tagger import Tagger


def to_device(batch, device):
    return {k: v.to(device, non_blocking=True) for k, v in batch.items()}


@torch.no_grad()
def token_accuracy(model, loader, device):
    model.eval()
    hit = n = 0
    for batch in loader:
        b = to_device(batch, device)
        pred = model(b["ids"], b["mask"]).argmax(dim=-1)
        valid = b["tags"] != IGNORE
        hit += (pred[valid] == b["tags"][valid]).sum().item()
        n += valid.sum().item()
    return hit / max(1, n)


def train(train_path, dev_path, epochs=15):
    torch.manual_seed(42)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tr, dv = read_conll(train_path), read_conll(dev_path)
    words = Vocab((w.lower() for s, _ in tr for w in s), specials=("<pad>", "<unk>"))
    tags = Vocab(t for _, ts in tr for t in ts)
    mk = lambda rows, sh: DataLoader(Sentences(rows, words, tags), 32, shuffle=sh, collate_fn=collate)
    tl, dl = mk(tr, True), mk(dv, False)
    model = Tagger(len(words), len(tags)).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 5e-4, total_steps=epochs * len(tl))
    for epoch in range(epochs):
        model.train()
        for batch in tl:
            b = to_device(batch, device)
            logits = model(b["ids"], b["mask"])
            loss = F.cross_entropy(logits.transpose(1, 2), b["tags"], ignore_index=IGNORE)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
        print(f"epoch {epoch} dev acc {token_accuracy(model, dl, device):.4f}")
    torch.save(model.state_dict(), "tagger.pt")


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2])
