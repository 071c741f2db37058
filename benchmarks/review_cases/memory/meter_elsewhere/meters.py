class AverageMeter:
    """Keeps the running average of a quantity."""

    def __init__(self, name):
        self.name = name
        self.reset()

    def reset(self):
        self.sum, self.count, self.last = 0, 0, None

    def update(self, val, n=1):
        self.last = val
        self.sum += val * n  # expect: ESP301 @m
        self.count += n

    @property
    def avg(self):
        return self.sum / max(self.count, 1)
