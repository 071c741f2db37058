import torch
import torch.nn as nn
import torch.nn.functional as F

from anchors import decode, make_anchors


class BoxHead(nn.Module):
    def __init__(self, cin=256, anchors=3, stride=16):
        super().__init__()
        self.stride = stride
        self.conv = nn.Conv2d(cin, cin, 3, padding=1)
        self.box = nn.Conv2d(cin, anchors * 4, 1)

    def forward(self, feature):
        b, _, h, w = feature.shape
        deltas = self.box(F.relu(self.conv(feature))).permute(0, 2, 3, 1).reshape(b, -1, 4)
        anchors = make_anchors(h, w, self.stride)
        return decode(deltas, anchors)  # expect: ESP104 @a


def train(head, backbone, loader, device="cuda"):
    head.to(device).train()
    backbone.to(device).eval()
    opt = torch.optim.SGD(head.parameters(), 0.01)
    for images, boxes in loader:
        with torch.no_grad():
            feature = backbone(images.to(device))
        loss = F.smooth_l1_loss(head(feature), boxes.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
