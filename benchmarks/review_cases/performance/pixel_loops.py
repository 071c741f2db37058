"""Post-processing of segmentation masks."""
import torch
import torch.nn.functional as F

PALETTE = [(0, 0, 0), (128, 64, 128), (244, 35, 232), (70, 70, 70)]


def colourise(mask):
    h, w = mask.shape
    image = torch.zeros(h, w, 3, dtype=torch.uint8)
    for y in range(h):
        for x in range(w):
            image[y, x] = torch.tensor(PALETTE[mask[y, x]])  # expect: ESP409
    return image


def count_correct(pred, target):
    correct = 0
    for p, t in zip(pred, target):
        if p.item() == t.item():  # expect: ESP409|ESP305
            correct += 1
    return correct


@torch.inference_mode()
def evaluate(model, loader, device):
    model.eval()
    hits, n = 0, 0
    for images, labels in loader:
        out = F.interpolate(model(images.to(device)), scale_factor=4, mode="bilinear", align_corners=False)
        pred = out.argmax(1).flatten().cpu()
        hits += count_correct(pred, labels.flatten())
        n += labels.numel()
    return hits / n
