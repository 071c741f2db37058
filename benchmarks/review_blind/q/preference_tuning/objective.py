"""Direct preference objective."""
import torch
import torch.nn.functional as F

from collate import IGNORE


def sequence_logps(logits, labels):
    """Summed log probability of the answer tokens of every row."""
    mask = labels != IGNORE
    index = labels.masked_fill(~mask, 0)
    logps = logits.float().log_softmax(-1)
    token = logps.gather(2, index.unsqueeze(2)).squeeze(2)
    return (token * mask).sum(-1)


class PreferenceLoss(torch.nn.Module):
    def __init__(self, beta=0.1, label_smoothing=0.0):
        super().__init__()
        self.beta, self.label_smoothing = beta, label_smoothing

    def forward(self, policy, reference):
        pc, pr = policy.chunk(2)
        rc, rr = reference.chunk(2)
        margin = self.beta * ((pc - rc) - (pr - rr))
        loss = (-F.logsigmoid(margin) * (1 - self.label_smoothing)
                - F.logsigmoid(-margin) * self.label_smoothing).mean()
        stats = {"accuracy": (margin > 0).float().mean().detach(),
                 "margin": margin.mean().detach()}
        return loss, stats
