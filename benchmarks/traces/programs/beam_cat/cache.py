import torch


class KeyCache:
    def __init__(self):
        self.keys = None

    def extend(self, new):
        if self.keys is None:
            self.keys = new
        else:
            self.keys = torch.cat([self.keys, new], dim=1)
        return self.keys
