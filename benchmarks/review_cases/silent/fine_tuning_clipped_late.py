"""Mixed precision fine-tuning of an encoder."""
import torch
from torch import nn
from torch.utils.data import DataLoader


class Finetuner:
    def __init__(self, model, train_set, lr, max_norm, device):
        self.model = model.to(device)
        self.loader = DataLoader(train_set, batch_size=16, shuffle=True, num_workers=4, pin_memory=True)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, lr, epochs=3, steps_per_epoch=len(self.loader))
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.max_norm = max_norm
        self.device = device

    def optimize(self, loss):
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)  # expect: ESP217
        self.scheduler.step()

    def fit(self, epochs=3):
        for epoch in range(epochs):
            self.model.train()
            for batch in self.loader:
                batch = {k: v.to(self.device, non_blocking=True) for k, v in batch.items()}
                labels = batch.pop("labels")
                self.optimize(self.criterion(self.model(**batch), labels))
