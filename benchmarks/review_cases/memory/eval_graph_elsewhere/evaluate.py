import torch


def mean_iou(model, batches, classes, device):
    """Mean intersection over union; expects the model in evaluation mode."""
    inter = torch.zeros(classes, device=device)
    union = torch.zeros(classes, device=device)
    for images, masks in batches:
        masks = masks.to(device)
        pred = model(images.to(device)).argmax(1)  # expect: ESP302
        for c in range(classes):
            p, g = pred == c, masks == c
            inter[c] += (p & g).sum()  # allow: ESP409
            union[c] += (p | g).sum()
    return (inter / union.clamp(min=1)).mean()
