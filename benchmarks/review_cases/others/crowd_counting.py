from pathlib import Path

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class CrowdScenes(Dataset):
    def __init__(self, root):
        self.files = sorted(Path(root).glob("*.pt"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        item = torch.load(self.files[index], weights_only=True)
        return item["image"], torch.tensor([float(item["heads"])])


class DensityNet(nn.Module):
    def __init__(self):
        super().__init__()
        layers, last = [], 3
        for width, dilation in ((64, 1), (128, 2), (128, 2), (64, 2)):
            layers += [nn.Conv2d(last, width, 3, padding=dilation, dilation=dilation), nn.ReLU(inplace=True)]
            last = width
        self.body = nn.Sequential(*layers)
        self.density = nn.Conv2d(last, 1, 1)

    def forward(self, image):
        return self.density(self.body(image)).relu()


def main(root="scenes/train", n_epochs=200):
    loader = DataLoader(CrowdScenes(root), batch_size=8, shuffle=True, num_workers=4, pin_memory=True)
    net = DensityNet().to(DEVICE)
    opt = torch.optim.Adam(net.parameters(), lr=1e-5)
    mse = nn.MSELoss()
    for epoch in range(n_epochs):
        net.train()
        error = 0.0
        for image, heads in loader:
            image, heads = image.to(DEVICE), heads.to(DEVICE)
            counted = net(image).sum(dim=(1, 2, 3))
            loss = mse(counted, heads)  # expect: ESP105
            opt.zero_grad()
            loss.backward()
            opt.step()
            error += loss.item()  # expect: ESP305
        print(f"{epoch:3d}  {error / len(loader):.3f}")


if __name__ == "__main__":
    main()
