from dataclasses import dataclass


@dataclass
class LMSettings:
    vocab: int = 64
    width: int = 48
    block_size: int = 32
    layers: int = 2
    window: int = 48
    batch: int = 4
