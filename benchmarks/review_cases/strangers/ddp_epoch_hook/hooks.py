class EpochHooks:
    """What has to know which epoch it is."""

    def __init__(self, *listeners):
        self.listeners = [each for each in listeners if hasattr(each, "set_epoch")]

    def start(self, epoch):
        for each in self.listeners:
            each.set_epoch(epoch)
