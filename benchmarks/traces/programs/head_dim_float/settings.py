"""Settings of the language model."""
from dataclasses import dataclass


@dataclass
class ModelSettings:
    """Sizes of the model.

    Attributes:
        width: Size of the residual stream.
        heads: Attention heads.
        layers: Blocks.
    """

    vocabulary: int = 120
    context: int = 32
    width: int = 64
    heads: int = 4
    layers: int = 2

    def __post_init__(self):
        self.head_size = self.width / self.heads
        self.feed_size = 4 * self.width
