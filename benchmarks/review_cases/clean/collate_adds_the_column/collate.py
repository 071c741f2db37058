import torch


def collate(rows):
    """Stacks graphs' descriptors; targets become a column, (B, 1)."""
    x = torch.stack([r["x"] for r in rows])
    y = torch.tensor([r["y"] for r in rows], dtype=torch.float32)
    return x, y.unsqueeze(-1)
