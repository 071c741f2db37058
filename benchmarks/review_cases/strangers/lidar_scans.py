"""Detection in lidar scans; a scan is voxelised when it is read."""
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Scans(Dataset):
    def __init__(self, files, boxes, grid=(200, 200), extent=50.0):
        self.files, self.boxes = files, boxes
        self.grid, self.extent = grid, extent
        self.device = torch.device("cuda")

    def __len__(self):
        return len(self.files)

    def occupancy(self, points):
        cell = ((points[:, :2] + self.extent) / (2 * self.extent) * self.grid[0]).astype(np.int64)
        inside = ((cell >= 0) & (cell < self.grid[0])).all(1)
        grid = np.zeros(self.grid, dtype=np.float32)
        np.add.at(grid, tuple(cell[inside].T), 1.0)
        return np.log1p(grid)

    def __getitem__(self, index):
        points = np.fromfile(self.files[index], dtype=np.float32).reshape(-1, 4)
        grid = torch.from_numpy(self.occupancy(points)).unsqueeze(0).to(self.device)  # expect: ESP410
        return grid, torch.as_tensor(self.boxes[index]).to(self.device)  # allow: ESP410


def collate(samples):
    grids, boxes = zip(*samples)
    return torch.stack(grids), list(boxes)


def detect(net, files, boxes, criterion, epochs=30):
    net = net.cuda().train()
    loader = DataLoader(Scans(files, boxes), batch_size=8, shuffle=True, collate_fn=collate)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for _ in range(epochs):
        for grids, targets in loader:
            loss = criterion(net(grids), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
