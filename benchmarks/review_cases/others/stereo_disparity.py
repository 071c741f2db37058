import torch
import torch.nn as nn
import torch.nn.functional as F


class CostVolumeNet(nn.Module):
    def __init__(self, max_disp=48, c=32):
        super().__init__()
        self.max_disp = max_disp
        self.features = nn.Sequential(
            nn.Conv2d(3, c, 5, stride=2, padding=2), nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1)
        )
        self.regular = nn.Sequential(
            nn.Conv3d(2 * c, c, 3, padding=1), nn.BatchNorm3d(c), nn.ReLU(), nn.Conv3d(c, 1, 3, padding=1)
        )

    def forward(self, left, right):
        fl, fr = self.features(left), self.features(right)
        volume = []
        for d in range(self.max_disp // 2):
            shifted = F.pad(fr, (d, 0))[..., : fr.shape[-1]]
            volume.append(torch.cat([fl, shifted], 1))
        cost = self.regular(torch.stack(volume, 2)).squeeze(1)
        prob = F.softmax(-cost, dim=1)
        disp = (prob * torch.arange(prob.shape[1], device=prob.device)[None, :, None, None]).sum(1, keepdim=True)
        return F.interpolate(2 * disp, scale_factor=2, mode="bilinear", align_corners=False).squeeze(1)


def end_point_error(net, loader, device):
    net.eval()
    total = torch.zeros((), device=device)
    count = torch.zeros((), device=device)
    for left, right, truth in loader:
        truth = truth.to(device)
        predicted = net(left.to(device), right.to(device))  # expect: ESP302
        valid = (truth > 0) & (truth < net.max_disp)
        total += (predicted - truth).abs()[valid].sum().detach()
        count += valid.sum()
    return float(total / count.clamp(min=1))


def train(net, train_loader, val_loader, device, epochs, resume=None):
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    first = 0
    if resume:
        ckpt = torch.load(resume, map_location=device, weights_only=False)  # expect: ESP901
        net.load_state_dict(ckpt["net"])
        opt.load_state_dict(ckpt["opt"])
        first = ckpt["epoch"] + 1
    net.to(device)
    for epoch in range(first, epochs):
        net.train()
        for left, right, truth in train_loader:
            left, right, truth = left.to(device), right.to(device), truth.to(device)
            valid = truth > 0
            opt.zero_grad()
            F.smooth_l1_loss(net(left, right)[valid], truth[valid]).backward()
            opt.step()
        print(epoch, end_point_error(net, val_loader, device))
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "epoch": epoch}, "stereo.pt")
