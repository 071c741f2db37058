import torch


@torch.no_grad()
def auc_inputs(network, loader, device):
    """Collects scores and outcomes of a cohort on the host."""
    scores, outcomes = [], []
    for vitals, outcome in loader:
        logit = network(vitals.to(device)).squeeze(-1)  # expect: ESP102 @mode
        scores.append(torch.sigmoid(logit).cpu())
        outcomes.append(outcome)
    return torch.cat(scores), torch.cat(outcomes)


def auc(scores, outcomes):
    order = scores.argsort()
    ranks = torch.empty_like(scores)
    ranks[order] = torch.arange(1, len(scores) + 1, dtype=scores.dtype)
    pos = outcomes.bool()
    n_pos, n_neg = int(pos.sum()), int((~pos).sum())
    if n_pos == 0 or n_neg == 0:
        return 0.5
    return (ranks[pos].sum().item() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)
