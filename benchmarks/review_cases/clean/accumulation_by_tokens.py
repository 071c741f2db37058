"""Accumulates gradients over parts of a batch whose losses are sums, and divides by the tokens of all of them."""

import torch
import torch.nn.functional as F


def step(net, optimizer, parts, accumulate):
    tokens = sum(int((y >= 0).sum()) for _, y in parts)
    optimizer.zero_grad(set_to_none=True)
    for micro in range(accumulate):
        x, y = parts[micro]
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten(), ignore_index=-1, reduction="sum") / tokens
        loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()


def learn(net, target_net, optimizer, state, action, reward, after, is_last, gamma):
    chosen = net(state).gather(1, action)
    with torch.no_grad():
        best = target_net(after).amax(1, keepdim=True)
    loss = F.mse_loss(chosen, reward + gamma * best * (1 - is_last))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
