import torch


@torch.no_grad()
def recall_at(model, catalogue, loader, k=50, device="cuda"):
    """Share of held-out purchases among the k nearest items."""
    ids, dense = catalogue
    items = model.item(ids.to(device), dense.to(device))  # expect: ESP102 @mode
    hits, count = torch.zeros((), device=device), 0
    for user, user_dense, bought in loader:
        scores = model.user(user.to(device), user_dense.to(device)) @ items.t()
        top = scores.topk(k, dim=1).indices
        hits += (top == bought.to(device).unsqueeze(1)).any(1).sum()
        count += len(user)
    return hits.item() / count
