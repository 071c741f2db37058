"""Classifies whole-slide images patch by patch and votes."""
import torch
import torch.nn as nn


class PatchNet(nn.Module):
    def __init__(self, kinds=4):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU()
        )
        self.out = nn.Linear(64, kinds)

    def forward(self, x):
        return self.out(self.net(x).mean((2, 3)))


def tissue(patches, threshold=0.85):
    return patches[patches.mean(dim=(1, 2, 3)) < threshold]


def slide_votes(model, slide, size=256):
    """slide: (3, H, W), a level of the pyramid."""
    patches = slide.unfold(1, size, size).unfold(2, size, size)
    patches = tissue(patches.permute(1, 2, 0, 3, 4).reshape(-1, 3, size, size))
    votes = []
    for i in range(patches.shape[0]):
        logits = model(patches[i].unsqueeze(0))  # expect: ESP408
        votes.append(logits.softmax(1))
    return torch.cat(votes).mean(0)


@torch.inference_mode()
def diagnose(weights, slides, device="cuda"):
    model = PatchNet()
    model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    model.to(device).eval()
    return torch.stack([slide_votes(model, slide.to(device)) for slide in slides]).cpu()  # allow: ESP408
