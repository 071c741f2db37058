from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class StepConfig:
    max_norm: float = 1.0
    log_every: int = 50


def optimize(loss, optimizer, scheduler, params, cfg):
    """Backward pass, clip, and update."""
    loss.backward()  # expect: ESP101 @step
    torch.nn.utils.clip_grad_norm_(params, cfg.max_norm)
    optimizer.step()
    scheduler.step()


def ctc_loss(log_probs, targets, in_lens, tgt_lens, blank=0):
    return nn.functional.ctc_loss(log_probs.transpose(0, 1), targets, in_lens, tgt_lens, blank=blank, zero_infinity=True)
