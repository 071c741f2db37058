import rasterio
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Tiles(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        image_path, mask_path = self.rows[i]
        with rasterio.open(image_path) as src:
            bands = torch.tensor(src.read().astype("float32")) / 10_000
        with rasterio.open(mask_path) as src:
            mask = torch.tensor(src.read(1).astype("int64"))
        return bands, mask


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


def run(train_rows, val_rows, epochs=50):
    device = torch.device("cuda")
    net = nn.Sequential(block(13, 64), block(64, 64), block(64, 64), nn.Conv2d(64, 4, 1)).to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    ce = nn.CrossEntropyLoss(ignore_index=255)
    train_loader = DataLoader(Tiles(train_rows), batch_size=16, shuffle=True, pin_memory=True)  # expect: ESP406
    val_loader = DataLoader(Tiles(val_rows), batch_size=16, num_workers=8)  # expect: ESP413
    for epoch in range(epochs):
        net.train()
        for bands, mask in train_loader:
            bands, mask = bands.to(device, non_blocking=True), mask.to(device, non_blocking=True)
            loss = ce(net(bands), mask)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        net.eval()
        right = torch.zeros((), device=device)
        valid = torch.zeros((), device=device)
        with torch.inference_mode():
            for bands, mask in val_loader:
                mask = mask.to(device, non_blocking=True)
                guess = net(bands.to(device, non_blocking=True)).argmax(1)
                right += ((guess == mask) & (mask != 255)).sum()
                valid += (mask != 255).sum()
        print(f"{epoch:02d} {(right / valid.clamp(min=1)).item():.4f}")
