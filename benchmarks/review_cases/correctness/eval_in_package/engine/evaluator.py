import torch


class Evaluator:
    def __init__(self, loader, device):
        self.loader, self.device = loader, device

    @torch.no_grad()
    def __call__(self, model):
        right = torch.zeros((), device=self.device)
        for images, labels in self.loader:
            logits = model(images.to(self.device))  # expect: ESP102
            right += (logits.argmax(1) == labels.to(self.device)).sum()
        return right.item() / len(self.loader.dataset)
