import torch


def make_anchors(height, width, stride, sizes=(32, 64, 128)):
    """Centres and sizes of anchors for one feature map, (H*W*A, 4)."""
    ys = (torch.arange(height) + 0.5) * stride
    xs = (torch.arange(width) + 0.5) * stride
    cy, cx = torch.meshgrid(ys, xs, indexing="ij")
    centres = torch.stack([cx, cy], dim=-1).reshape(-1, 1, 2).expand(-1, len(sizes), 2)
    wh = torch.tensor(sizes, dtype=torch.float32).view(1, -1, 1).expand(height * width, -1, 2)
    return torch.cat([centres, wh], dim=-1).reshape(-1, 4)


def decode(deltas, anchors):
    xy = anchors[:, :2] + deltas[..., :2] * anchors[:, 2:]  # expect: ESP104 @a
    wh = anchors[:, 2:] * deltas[..., 2:].clamp(max=4).exp()
    return torch.cat([xy - wh / 2, xy + wh / 2], dim=-1)
