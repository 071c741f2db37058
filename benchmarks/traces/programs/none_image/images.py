"""Read images from raw files."""
from pathlib import Path

import torch

SIDE = 16


def read_raw(path):
    """Return an image (1, side, side), scaled to 0 to 1."""
    data = Path(path).read_bytes()
    if len(data) != SIDE * SIDE:
        print(f"warning: cannot read {Path(path).name}")
        return None
    pixels = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    return pixels.view(1, SIDE, SIDE).float() / 255.0


def write_samples(folder, count):
    """Write random images; one of them is cut off."""
    for index in range(count):
        size = SIDE * SIDE if index != 5 else 40
        pixels = torch.randint(0, 256, (size,), dtype=torch.uint8)
        (Path(folder) / f"{index:03}.raw").write_bytes(bytes(pixels.tolist()))
