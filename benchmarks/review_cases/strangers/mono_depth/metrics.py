import torch


class DepthReport:
    """Errors over the Eigen split."""

    def __init__(self, loader, device, cap=80.0):
        self.loader, self.device, self.cap = loader, device, cap

    @torch.inference_mode()
    def __call__(self, network):
        network.eval()  # expect: ESP103 @mode
        sums = torch.zeros(3, device=self.device)
        for image, depth in self.loader:
            truth = depth.to(self.device)
            guess = network(image.to(self.device)).clamp(1e-3, self.cap)
            ratio = torch.maximum(guess / truth.clamp(min=1e-3), truth / guess)
            absrel = ((guess - truth).abs() / truth.clamp(min=1e-3)).mean()
            sums += torch.stack([absrel, (guess - truth).square().mean(), (ratio < 1.25).float().mean()])
        return (sums / len(self.loader)).tolist()
