import torch
import torch.nn as nn


class StyleEncoder(nn.Module):
    """Features of a self-supervised backbone, projected."""

    def __init__(self, out=256):
        super().__init__()
        self.backbone = torch.hub.load("somebody/awesome-backbones", "tiny_vit", pretrained=True, trust_repo=True)  # expect: ESP902
        self.backbone.requires_grad_(False)
        self.proj = nn.Linear(384, out)

    def forward(self, x):
        with torch.no_grad():
            f = self.backbone(x)
        return self.proj(f)


def detector(weights="yolov5s"):
    return torch.hub.load("ultralytics/yolov5:master", weights)  # expect: ESP902


def midas(device="cuda"):
    model = torch.hub.load("intel-isl/MiDaS", "DPT_Large").to(device).eval()  # expect: ESP902
    tf = torch.hub.load("intel-isl/MiDaS", "transforms")  # expect: ESP902
    return model, tf.dpt_transform
