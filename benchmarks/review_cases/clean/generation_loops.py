"""Autoregressive decoding: the sequence has to grow, and each step needs the last."""
import torch
import torch.nn.functional as F


@torch.inference_mode()
def generate(model, ids, max_new_tokens, temperature=1.0, top_k=None, eos=None):
    model.eval()
    for _ in range(max_new_tokens):
        logits = model(ids[:, -model.block_size :])[:, -1] / temperature
        if top_k is not None:
            v = torch.topk(logits, top_k).values[:, [-1]]
            logits = logits.masked_fill(logits < v, float("-inf"))
        nxt = torch.multinomial(F.softmax(logits, dim=-1), 1)
        ids = torch.cat([ids, nxt], dim=1)
        if eos is not None and bool((nxt == eos).all()):
            break
    return ids


@torch.no_grad()
def ddim_sample(model, shape, alphas, steps, device):
    model.eval()
    x = torch.randn(shape, device=device)
    times = torch.linspace(len(alphas) - 1, 0, steps).long()
    for t in times.tolist():
        a = alphas[t]
        eps = model(x, torch.full((shape[0],), t, device=device))
        x0 = (x - (1 - a).sqrt() * eps) / a.sqrt()
        x = alphas[max(t - len(alphas) // steps, 0)].sqrt() * x0 + (1 - alphas[max(t - len(alphas) // steps, 0)]).sqrt() * eps
    return x


def unroll(cell, x, h):
    outputs = []
    for t in range(x.size(1)):
        h = cell(x[:, t], h)
        outputs.append(h)
    return torch.stack(outputs, dim=1)


def ensemble(models, x):
    probs = torch.stack([m(x).softmax(-1) for m in models])
    return probs.mean(0)


def move_all(models, device):
    for m in models:
        m.to(device)
    return models


def per_scale(model, image, scales=(0.5, 1.0, 2.0)):
    outs = []
    for s in scales:
        resized = F.interpolate(image, scale_factor=s, mode="bilinear", align_corners=False)
        outs.append(F.interpolate(model(resized), size=image.shape[-2:], mode="bilinear", align_corners=False))
    return torch.stack(outs).mean(0)
