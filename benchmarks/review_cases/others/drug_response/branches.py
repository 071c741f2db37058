import torch
import torch.nn as nn


class CellBranch(nn.Module):
    """Expression profile of a cell line to 128 features."""

    def __init__(self, genes: int = 978) -> None:
        super().__init__()
        self.fc1 = nn.Linear(genes, 512)
        self.fc2 = nn.Linear(512, 128)

    def forward(self, profile: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.fc2(torch.relu(self.fc1(profile))))


class DrugBranch(nn.Module):
    """Fingerprint of a compound to 64 features."""

    def __init__(self, bits: int = 2048) -> None:
        super().__init__()
        self.fc1 = nn.Linear(bits, 256)
        self.fc2 = nn.Linear(256, 64)

    def forward(self, fingerprint: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.fc2(torch.relu(self.fc1(fingerprint))))
