"""Standardization of sensor readings."""
import numpy as np


class Standardizer:
    """Stores mean and deviation of the training readings."""

    def __init__(self):
        self.mean = None
        self.deviation = None

    def fit(self, readings):
        self.mean = np.mean(readings, axis=0, dtype=np.float64)
        self.deviation = np.std(readings, axis=0, dtype=np.float64) + 1e-6
        return self

    def transform(self, readings):
        return (readings - self.mean) / self.deviation


def synthetic_readings(count, channels, seed=0):
    """Return readings (count, channels) and targets (count), both float32."""
    generator = np.random.default_rng(seed)
    readings = generator.normal(5.0, 2.0, size=(count, channels)).astype(np.float32)
    targets = (readings[:, 0] - readings[:, 1]).astype(np.float32)
    return readings, targets
