"""A loop with events; what happens at each is in the handlers."""


class Loop:
    def __init__(self, step, loader, device):
        self.step, self.loader, self.device, self.handlers = step, loader, device, {}

    def on(self, event):
        def register(handler):
            self.handlers.setdefault(event, []).append(handler)
            return handler

        return register

    def fire(self, event, *args):
        for handler in self.handlers.get(event, ()):
            handler(*args)

    def run(self, epochs):
        for epoch in range(epochs):
            self.fire("epoch", epoch)
            for batch in self.loader:
                self.fire("before", batch)
                loss = self.step([t.to(self.device) for t in batch])
                self.fire("after", loss)
            self.fire("validate", epoch)
