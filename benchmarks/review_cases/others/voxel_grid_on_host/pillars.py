import torch
from torch import Tensor, nn


class PillarEncoder(nn.Module):
    """Turns points into a bird's eye view, each with its offset from the centre of its pillar."""

    def __init__(self, extent: float = 51.2, cell: float = 0.2, channels: int = 64) -> None:
        super().__init__()
        self.cell, self.extent = cell, extent
        self.side = int(2 * extent / cell)
        steps = (torch.arange(self.side) + 0.5) * cell - extent
        self.centres = torch.stack(torch.meshgrid(steps, steps, indexing="ij"), dim=-1).reshape(-1, 2)  # expect: ESP104 @grid
        self.embed = nn.Sequential(nn.Linear(6, channels, bias=False), nn.BatchNorm1d(channels), nn.ReLU())

    def forward(self, points: Tensor, batch: Tensor, size: int) -> Tensor:
        column = ((points[:, :2] + self.extent) / self.cell).long().clamp(0, self.side - 1)
        slot = column[:, 0] * self.side + column[:, 1]
        offset = points[:, :2] - self.centres[slot]  # expect: ESP104 @grid
        feat = self.embed(torch.cat([points[:, :4], offset], dim=1))
        canvas = feat.new_zeros(size * self.side**2, feat.shape[1])
        canvas.index_reduce_(0, batch * self.side**2 + slot, feat, "amax")
        return canvas.view(size, self.side, self.side, -1).permute(0, 3, 1, 2)
