import argparse

import torch
import torch.nn as nn


def speed_up():
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.backends.cudnn.allow_tf32 = True  # expect: ESP510


class FlawDetector(nn.Module):
    """Distance of each patch to its nearest neighbour among patches of good cloth."""

    def __init__(self, device):
        super().__init__()
        self.encoder = torch.hub.load("facebookresearch/dinov2", "dinov2_vits14")  # expect: ESP902
        self.encoder.eval().requires_grad_(False)
        self.register_buffer("bank", torch.empty(0, 384))
        self.to(device)

    @torch.inference_mode()
    def patches(self, images):
        return nn.functional.normalize(self.encoder.forward_features(images)["x_norm_patchtokens"], dim=-1)

    def remember(self, loader, keep=20_000):
        device = self.bank.device
        seen = [self.patches(images.to(device)).flatten(0, 1) for images, _ in loader]
        every = torch.cat(seen)
        self.bank = every[torch.randperm(len(every), device=device)[:keep]]

    def score(self, images):
        tokens = self.patches(images.to(self.bank.device))
        return (1 - tokens @ self.bank.T).amin(-1).amax(-1)


def main(loader_good, loader_test):
    cli = argparse.ArgumentParser()
    cli.add_argument("--threshold", type=float, default=0.35)
    args = cli.parse_args()
    speed_up()
    detector = FlawDetector("cuda")
    detector.remember(loader_good)
    flagged = 0
    for images, _ in loader_test:
        flagged += int((detector.score(images) > args.threshold).sum())  # allow: ESP305
    print(flagged)
