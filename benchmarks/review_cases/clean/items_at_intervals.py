"""Training with sparse logging; the policy reads values that steer it."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def fit(model, loader, device, steps=100_000, log_every=100, patience=10):
    opt = torch.optim.AdamW(model.parameters(), 3e-4)
    window = torch.zeros((), device=device)
    step = 0
    model.train()
    while step < steps:
        for x, y in loader:
            loss = F.cross_entropy(model(x.to(device, non_blocking=True)), y.to(device, non_blocking=True))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            window += loss.detach()
            step += 1
            if step % log_every == 0:
                print(step, window.item() / log_every)
                window.zero_()
            if step >= steps:
                break
        print("epoch end", loss.item())


def rollout(policy, env, horizon):
    obs, _ = env.reset()
    rewards = []
    policy.eval()
    with torch.no_grad():
        for _ in range(horizon):
            logits = policy(torch.as_tensor(obs).float()[None])
            action = torch.distributions.Categorical(logits=logits).sample()
            obs, r, term, trunc, _ = env.step(int(action.item()))
            rewards.append(r)
            if term or trunc:
                break
    return sum(rewards)


def export_predictions(model, loader, device, path):
    import numpy as np

    model.eval()
    out = []
    with torch.inference_mode():
        for x, _ in loader:
            out.append(model(x.to(device)).softmax(-1).cpu().numpy())
    np.save(path, np.concatenate(out))


def summarize(model):
    norms = {}
    for name, p in model.named_parameters():
        norms[name] = p.norm().item()
    return norms
