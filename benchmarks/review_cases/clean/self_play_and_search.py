"""AlphaZero in small: the network answers one position at a time inside the search."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class PVNet(nn.Module):
    def __init__(self, n=9, moves=9):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2 * n, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
        self.p, self.v = nn.Linear(128, moves), nn.Linear(128, 1)

    def forward(self, x):
        h = self.body(x)
        return self.p(h), torch.tanh(self.v(h)).squeeze(-1)


class Node:
    def __init__(self, prior):
        self.prior, self.visits, self.value, self.children = prior, 0, 0.0, {}


def search(game, net, simulations, c=1.5):
    root = Node(1.0)
    net.eval()
    with torch.no_grad():
        for _ in range(simulations):
            node, state, path = root, game.copy(), [root]
            while node.children:
                total = math.sqrt(node.visits)
                move, node = max(node.children.items(), key=lambda kv: -kv[1].value / max(1, kv[1].visits) + c * kv[1].prior * total / (1 + kv[1].visits))
                state.play(move)
                path.append(node)
            value = state.outcome()
            if value is None:
                logits, v = net(state.encode().unsqueeze(0))
                priors = logits[0].softmax(-1).tolist()
                node.children = {m: Node(priors[m]) for m in state.legal()}
                value = v.item()
            for n in reversed(path):
                n.visits += 1
                n.value += value
                value = -value
    return {m: child.visits for m, child in root.children.items()}


def learn(net, examples, opt, epochs=5, batch=64):
    net.train()
    for _ in range(epochs):
        for states, pis, zs in examples.batches(batch):
            logits, v = net(states)
            loss = -(pis * F.log_softmax(logits, -1)).sum(-1).mean() + F.mse_loss(v, zs)
            opt.zero_grad()
            loss.backward()
            opt.step()
