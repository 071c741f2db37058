class Progress:
    """Prints a smoothed loss on one line."""

    def __init__(self, total, beta=0.98):
        self.total, self.beta, self.smooth, self.seen = total, beta, 0.0, 0

    def step(self, loss):
        self.seen += 1
        self.smooth = self.beta * self.smooth + (1 - self.beta) * loss.item()  # expect: ESP305 @p
        corrected = self.smooth / (1 - self.beta**self.seen)
        if self.seen % 20 == 0:
            print(f"\r{self.seen}/{self.total} {corrected:.4f}", end="")
