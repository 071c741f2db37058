import torch
import torch.nn as nn
import torch.nn.functional as F


class AWD(nn.Module):
    """Hidden states live across batches, detached."""

    def __init__(self, vocab, d=400, h=1150):
        super().__init__()
        self.emb, self.r1, self.r2, self.out = nn.Embedding(vocab, d), nn.LSTM(d, h), nn.LSTM(h, d), nn.Linear(d, vocab)
        self.out.weight = self.emb.weight
        self.state = None

    def reset(self):
        self.state = None

    def forward(self, x):
        e = self.emb(x)
        s1, s2 = self.state if self.state is not None else (None, None)
        y, s1 = self.r1(e, s1)
        y, s2 = self.r2(y, s2)
        self.state = tuple(tuple(t.detach() for t in s) for s in (s1, s2))
        return self.out(y), y


def train(model, data, bptt, device, epochs=5, alpha=2.0, beta=1.0):
    opt = torch.optim.SGD(model.parameters(), 30, weight_decay=1.2e-6)
    data = data.to(device)
    model.to(device)
    for epoch in range(epochs):
        model.train()
        model.reset()
        outputs = torch.zeros((), device=device)
        n = 0
        for i in range(0, data.size(0) - 1 - bptt, bptt):
            x, y = data[i : i + bptt], data[i + 1 : i + 1 + bptt]
            logits, hidden = model(x)
            loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), y.reshape(-1))
            total = loss + alpha * hidden.pow(2).mean() + beta * (hidden[1:] - hidden[:-1]).pow(2).mean()
            opt.zero_grad()
            total.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            opt.step()
            outputs += loss.detach()
            n += 1
        print(epoch, (outputs / n).exp().item())
