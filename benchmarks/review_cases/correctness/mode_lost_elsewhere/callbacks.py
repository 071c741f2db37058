import torch


class SampleImages:
    """Writes a grid of reconstructions after each epoch."""

    def __init__(self, batch, every=1):
        self.batch, self.every = batch, every

    def __call__(self, model, epoch):
        if epoch % self.every:
            return None
        model.eval()
        with torch.no_grad():
            return model(self.batch).clamp(0, 1)
