class EpochHooks:
    """What has to know which epoch it is."""

    def __init__(self, *listeners):
        self.listeners = [listener for listener in listeners if hasattr(listener, "set_epoch")]

    def start(self, epoch):
        for listener in self.listeners:
            listener.set_epoch(epoch)
