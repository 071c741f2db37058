import torch
import torch.nn as nn
import torch.nn.functional as F

from bookkeeping import Running


class TransE(nn.Module):
    def __init__(self, entities, relations, dim=200, gamma=12.0):
        super().__init__()
        self.gamma = gamma
        self.entity = nn.Embedding(entities, dim)
        self.relation = nn.Embedding(relations, dim)
        nn.init.uniform_(self.entity.weight, -gamma / dim, gamma / dim)
        nn.init.uniform_(self.relation.weight, -gamma / dim, gamma / dim)

    def forward(self, head, rel, tail):
        return self.gamma - (self.entity(head) + self.relation(rel) - self.entity(tail)).abs().sum(-1)


class Experiment:
    def __init__(self, kge, triples, device, negatives=64):
        self.kge, self.triples, self.device, self.negatives = kge.to(device), triples, device, negatives
        self.running = Running()
        self.adam = torch.optim.Adam(kge.parameters(), lr=5e-4)

    def one_step(self, batch):
        head, rel, tail = batch.to(self.device).unbind(1)
        corrupt = torch.randint(self.kge.entity.num_embeddings, (len(head), self.negatives), device=self.device)
        positive = -F.logsigmoid(self.kge(head, rel, tail)).mean()
        negative = -F.logsigmoid(-self.kge(head[:, None], rel[:, None], corrupt)).mean()
        loss = (positive + negative) / 2
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        self.running.add("loss", loss, len(head))  # expect: ESP301 @sum
        self.running.add("positive", positive.detach(), len(head))

    def run(self, epochs):
        self.kge.train()
        for epoch in range(epochs):
            for batch in self.triples:
                self.one_step(batch)
            if epoch % 10 == 0:
                print(epoch, self.running.report())
