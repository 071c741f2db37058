import torch
import torch.nn as nn
import torch.nn.functional as F

from abstract import AbstractTrainer


class DistMult(nn.Module):
    def __init__(self, entities, relations, d=200, dropout=0.2):
        super().__init__()
        self.e, self.r, self.drop = nn.Embedding(entities, d), nn.Embedding(relations, d), nn.Dropout(dropout)

    def forward(self, head, relation):
        return self.drop(self.e(head) * self.r(relation)) @ self.e.weight.t()


class LinkTrainer(AbstractTrainer):
    def _scores(self, batch):
        h, r, t = (v.to(self.device, non_blocking=True) for v in batch)
        return self.net(h, r), t

    def train_step(self, batch):
        scores, t = self._scores(batch)
        self.backward_and_step(F.cross_entropy(scores, t, label_smoothing=0.1))

    def eval_step(self, batch):
        scores, t = self._scores(batch)
        rank = (scores > scores.gather(1, t[:, None])).sum(1) + 1
        return (1.0 / rank.float()).mean()


def main(train, valid, entities, relations):
    net = DistMult(entities, relations)
    LinkTrainer(net, torch.optim.Adagrad(net.parameters(), 0.1), "cuda").fit(train, valid, 50)
