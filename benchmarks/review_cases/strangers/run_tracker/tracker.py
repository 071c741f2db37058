import math


class Tracker:
    """An exponential mean of every number it is given."""

    def __init__(self, decay=0.98):
        self.decay, self.values, self.steps = decay, {}, 0

    def update(self, **numbers):
        self.steps += 1
        for name, number in numbers.items():
            value = number.item()  # expect: ESP305 @read
            if not math.isfinite(value):
                raise FloatingPointError(f"{name} is {value} at step {self.steps}")
            self.values[name] = self.decay * self.values.get(name, value) + (1 - self.decay) * value

    def line(self):
        return "  ".join(f"{name} {value:.4f}" for name, value in self.values.items())
