import torch


class Predictor:
    """Holds a network ready to answer."""

    def __init__(self, network, weights, device):
        self.device = device
        state = torch.load(weights, map_location=device, weights_only=True)
        network.load_state_dict(state)
        self.network = network.to(device).requires_grad_(False)
        self.network.train(mode=False)

    def __call__(self, *inputs):
        with torch.inference_mode():
            return self.network(*(x.to(self.device, non_blocking=True) for x in inputs))
