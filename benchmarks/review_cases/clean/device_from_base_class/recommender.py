import torch
import torch.nn as nn
import torch.nn.functional as F

from base import BaseModel


class SASRec(BaseModel):
    def __init__(self, items, maxlen=200, d=64, heads=2, blocks=2, dropout=0.2):
        super().__init__()
        self.item, self.pos = nn.Embedding(items + 1, d, padding_idx=0), nn.Embedding(maxlen, d)
        layer = nn.TransformerEncoderLayer(d, heads, d, dropout, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, blocks, enable_nested_tensor=False)

    def forward(self, seq):
        t = seq.size(1)
        x = self.item(seq) * self.item.embedding_dim**0.5 + self.pos(self.positions(t))
        mask = torch.ones(t, t, dtype=torch.bool, device=self.device).triu(1)
        return self.enc(x, mask=mask)

    def loss(self, batch):
        batch = self.to_here(batch)
        h = self(batch["seq"])
        pos = (h * self.item(batch["pos"])).sum(-1)
        neg = (h * self.item(batch["neg"])).sum(-1)
        keep = batch["pos"] != 0
        return (F.softplus(-pos) + F.softplus(neg))[keep].mean()


def train(loader, items, epochs=200):
    model = SASRec(items).cuda()
    opt = torch.optim.Adam(model.parameters(), 1e-3, betas=(0.9, 0.98))
    for epoch in range(epochs):
        model.train()
        for batch in loader:
            loss = model.loss(batch)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        print(epoch, loss.item())
