import torch


def run(model, loader, device):
    """Yields the outputs and the names; the caller says whether gradients are wanted."""
    for image, name in loader:
        yield model(image.to(device, non_blocking=True)), name


def saliency(model, image, label):
    """How much each pixel matters to a label; wants gradients in evaluation mode."""
    model.eval()
    image = image.clone().requires_grad_(True)
    picked = model(image).gather(1, label.unsqueeze(1)).sum()
    (grad,) = torch.autograd.grad(picked, image)
    return grad.abs().amax(dim=1)
