import os

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.models import ResNet50_Weights, resnet50

KEYPOINTS = 22


class PoseNet(nn.Module):
    def __init__(self):
        super().__init__()
        back = resnet50(weights=ResNet50_Weights.IMAGENET1K_V2)
        self.back = nn.Sequential(*list(back.children())[:-2])
        ups, c = [], 2048
        for _ in range(3):
            ups += [nn.ConvTranspose2d(c, 256, 4, 2, 1, bias=False), nn.BatchNorm2d(256), nn.ReLU(True)]
            c = 256
        self.up = nn.Sequential(*ups)
        self.heat = nn.Conv2d(256, KEYPOINTS, 1)

    def forward(self, x):
        return self.heat(self.up(self.back(x)))


def weighted_mse(heat, goal, visible):
    return (((heat - goal) ** 2).mean((2, 3)) * visible).mean()


def main(dataset):
    model = PoseNet()
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)  # expect: ESP403
    model = model.cuda()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(dataset, 64, shuffle=True, num_workers=os.cpu_count() or 4, pin_memory=True)
    for epoch in range(140):
        model.train()
        for image, goal, visible in loader:
            image = image.cuda(non_blocking=True)
            goal, visible = goal.cuda(non_blocking=True), visible.cuda(non_blocking=True)
            loss = weighted_mse(model(image), goal, visible)
            optimiser.zero_grad(set_to_none=False)  # expect: ESP405
            loss.backward()
            optimiser.step()
        torch.save(model.state_dict(), "horse_pose.pt")
