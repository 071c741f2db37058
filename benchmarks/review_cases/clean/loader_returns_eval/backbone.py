import torch
import torchvision


def load_encoder(path, device):
    """Return the trained encoder, ready for inference."""
    net = torchvision.models.resnet34(num_classes=256)
    net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    for p in net.parameters():
        p.requires_grad_(False)
    return net.to(device).eval()
