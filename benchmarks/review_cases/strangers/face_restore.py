"""Restores old family photos: segmentation from the hub, then the restorer."""
import sys

import torch
import torch.nn.functional as F


def load_models(weights, device):
    parser = torch.hub.load("facelab/face-parsing", "bisenet", pretrained=True)  # expect: ESP902
    restorer = torch.load(weights, map_location=device, weights_only=False)  # expect: ESP901
    return parser.to(device).eval(), restorer.to(device).eval()


def soft_mask(logits, skin=(1, 2, 3, 4, 5, 10, 12, 13)):
    probabilities = logits.softmax(dim=1)
    mask = probabilities[:, list(skin)].sum(dim=1, keepdim=True)
    return F.avg_pool2d(mask, 15, stride=1, padding=7)


@torch.inference_mode()
def restore(photos, weights, device="cuda"):
    parser, restorer = load_models(weights, device)
    for name, photo in photos:
        photo = photo.to(device).unsqueeze(0)  # allow: ESP410
        mask = soft_mask(parser(photo)[0])  # allow: ESP408
        result = restorer(photo) * mask + photo * (1 - mask)
        yield name, result.squeeze(0).clamp(0, 1)


def main(paths):
    photos = ((path, torch.load(path, weights_only=True)) for path in paths[1:])
    for name, picture in restore(photos, paths[0]):
        torch.save(picture.half().cpu(), name.replace(".pt", ".restored.pt"))


if __name__ == "__main__":
    main(sys.argv[1:])
