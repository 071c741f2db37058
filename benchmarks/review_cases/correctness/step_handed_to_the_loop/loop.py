class Loop:
    """Counts steps and stops in time."""

    def __init__(self, limit):
        self.limit = limit
        self.done = 0


def repeat(step_fn, loader, loop):
    while loop.done < loop.limit:
        for batch in loader:
            step_fn(batch)
            loop.done += 1
