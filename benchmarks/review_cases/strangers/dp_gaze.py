"""Gaze direction from eye crops, on all cards of the workstation."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader

torch.autograd.set_detect_anomaly(True)  # expect: ESP404


class GazeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 32, 5, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten()
        )
        self.head = nn.Linear(1024 + 2, 2)

    def forward(self, eye, head_pose):
        return self.head(torch.cat([self.conv(eye), head_pose], dim=1))


def angular(pred, truth):
    def vector(a):
        pitch, yaw = a.unbind(1)
        return torch.stack([-pitch.cos() * yaw.sin(), -pitch.sin(), -pitch.cos() * yaw.cos()], dim=1)

    return 1 - nn.functional.cosine_similarity(vector(pred), vector(truth), dim=1).mean()


def main(train_set, epochs=20):
    net = GazeNet()
    if torch.cuda.device_count() > 1:
        net = nn.DataParallel(net)  # expect: ESP403
    net = net.cuda()
    loader = DataLoader(train_set, batch_size=512, shuffle=True, num_workers=12, pin_memory=True)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    for epoch in range(epochs):
        net.train()
        for eye, pose, gaze in loader:
            loss = angular(net(eye.cuda(non_blocking=True), pose.cuda(non_blocking=True)), gaze.cuda(non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"{epoch}: {loss.item():.4f}")
