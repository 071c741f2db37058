import torch
import torch.nn.functional as F


def robust_flow_loss(flow, truth, valid, limit=400.0):
    """End-point error of an optical flow over the valid pixels."""
    error = torch.linalg.vector_norm(flow - truth, dim=1)
    valid = valid & (truth.abs().amax(1) < limit)
    if valid.sum() == 0:  # expect: ESP501 @break
        return flow.sum() * 0
    return (error * valid).sum() / valid.sum()


def smoothness(flow, image, weight=10.0):
    dx = (flow[..., 1:] - flow[..., :-1]).abs()
    edge = torch.exp(-weight * (image[..., 1:] - image[..., :-1]).abs().mean(1, keepdim=True))
    return (dx * edge).mean() + 0.0 * F.relu(dx).mean()
