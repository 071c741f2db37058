from collections import defaultdict


class Running:
    """Averages by name over the steps since the last report."""

    def __init__(self):
        self.sums = defaultdict(float)
        self.counts = defaultdict(int)

    def add(self, name, value, n=1):
        self.sums[name] += value * n  # expect: ESP301 @sum
        self.counts[name] += n

    def report(self):
        lines = {name: float(self.sums[name]) / self.counts[name] for name in self.sums}
        self.sums.clear()
        self.counts.clear()
        return lines
