import torch
import torch.nn.functional as F


class Trainer:
    def __init__(self, model, loader, evaluator, device, lr=1e-3):
        self.model, self.loader, self.evaluator, self.device = model.to(device), loader, evaluator, device
        self.optimizer = torch.optim.AdamW(model.parameters(), lr)

    def fit(self, epochs):
        for epoch in range(epochs):
            self.model.train()
            for images, labels in self.loader:
                self.optimizer.zero_grad(set_to_none=True)
                loss = F.cross_entropy(self.model(images.to(self.device)), labels.to(self.device))
                loss.backward()
                self.optimizer.step()
            print(epoch, self.evaluator(self.model))
