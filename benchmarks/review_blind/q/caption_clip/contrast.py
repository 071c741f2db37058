"""Contrastive objective over the global batch."""
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


def world_size():
    return dist.get_world_size() if dist.is_initialized() else 1


def gather_batch(x):
    if world_size() == 1:
        return x
    parts = [torch.empty_like(x) for _ in range(world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts, dim=0)


@torch.no_grad()
def retrieval_accuracy(logits):
    target = torch.arange(logits.size(0), device=logits.device)
    forward = (logits.argmax(1) == target).float().mean()
    backward = (logits.argmax(0) == target).float().mean()
    return forward, backward


class GlobalContrast(nn.Module):
    def __init__(self, label_smoothing=0.0):
        super().__init__()
        self.label_smoothing = label_smoothing

    def forward(self, img, txt, scale):
        img_all = gather_batch(img)
        txt_all = gather_batch(txt)
        logits = scale * img_all @ txt_all.t()
        target = torch.arange(logits.size(0), device=logits.device)
        loss = 0.5 * (
            F.cross_entropy(logits, target, label_smoothing=self.label_smoothing)
            + F.cross_entropy(logits.t(), target, label_smoothing=self.label_smoothing))
        i2t, t2i = retrieval_accuracy(logits)
        return loss, {"i2t": i2t, "t2i": t2i}
