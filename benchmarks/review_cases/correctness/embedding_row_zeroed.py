import torch
import torch.nn as nn
import torch.nn.functional as F


class SkipGram(nn.Module):
    """word2vec with negative sampling."""

    def __init__(self, vocab, dim=300, pad=0):
        super().__init__()
        self.centre = nn.Embedding(vocab, dim)
        self.context = nn.Embedding(vocab, dim)
        self.centre.weight.uniform_(-0.5 / dim, 0.5 / dim)  # expect: ESP106
        self.context.weight.data.zero_()
        self.centre.weight[pad] = 0  # expect: ESP106

    def forward(self, word, positive, negative):
        w = self.centre(word)
        pos = (w * self.context(positive)).sum(-1)
        neg = torch.einsum("bd,bkd->bk", w, self.context(negative))
        return -(F.logsigmoid(pos) + F.logsigmoid(-neg).sum(-1)).mean()


def train(pairs, vocab, noise, epochs=5, device="cuda"):
    model = SkipGram(vocab).to(device)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    model.train()
    for epoch in range(epochs):
        for word, ctx in pairs:
            neg = torch.multinomial(noise, word.size(0) * 5, replacement=True).view(-1, 5)
            loss = model(word.to(device), ctx.to(device), neg.to(device))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        print(epoch, loss.item())
