"""Optimizers that call a closure, truncated backpropagation through time, and a fit by hand."""

import torch
from torch import nn


def fit_with_closure(model, criterion, inputs, targets, steps):
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.8)
    history = []
    for step in range(steps):

        def closure():
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        history.append(loss.detach())
        with torch.no_grad():
            residual = criterion(model(inputs[:10]), targets[:10])
        if step % 5 == 0:
            print(step, residual.item())
    return history


def fit_recurrent(model, batches, criterion, optimizer, clip=0.25):
    model.train()
    hidden = model.init_hidden(20)
    total = 0.0
    for i, (data, targets) in enumerate(batches):
        model.zero_grad()
        hidden = tuple(each.detach() for each in hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-1e-3)
        total += loss.detach()
        if i % 200 == 0 and i > 0:
            print(total.item() / 200)
            total = 0.0


def fit_by_hand(x, y, steps=2000, rate=1e-6):
    a, b = (torch.randn((), requires_grad=True) for _ in range(2))
    for _ in range(steps):
        loss = (a + b * x - y).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            a -= rate * a.grad
            b -= rate * b.grad
            a.grad = None
            b.grad = None
    return a, b


def losses_of_episode(policy, episode, gamma=0.99):
    log_probs, rewards, value = [], [], 0.0
    for state, reward in episode:
        distribution = torch.distributions.Categorical(logits=policy(state))
        action = distribution.sample()
        log_probs.append(distribution.log_prob(action))
        rewards.append(reward)
    loss = torch.zeros(())
    for log_prob, reward in zip(reversed(log_probs), reversed(rewards)):
        value = reward + gamma * value
        loss = loss - log_prob * value
    return loss
