"""Neural machine translation trainer; evaluates every thousand updates."""
import torch
import torch.nn as nn


class NMTTrainer:
    def __init__(self, model: nn.Module, train_iter, dev_iter, pad: int, device: torch.device):
        self.model = model.to(device)
        self.train_iter, self.dev_iter, self.device = train_iter, dev_iter, device
        self.criterion = nn.CrossEntropyLoss(ignore_index=pad, label_smoothing=0.1)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=7e-4, betas=(0.9, 0.98), eps=1e-9)
        self.updates = 0

    def _loss(self, batch):
        src, tgt = batch.src.to(self.device), batch.tgt.to(self.device)
        logits = self.model(src, tgt[:, :-1])
        return self.criterion(logits.reshape(-1, logits.size(-1)), tgt[:, 1:].reshape(-1))

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        return torch.stack([self._loss(b) for b in self.dev_iter]).mean().item()

    def train(self, epochs, eval_every=1000):
        self.model.train()
        for _ in range(epochs):
            for batch in self.train_iter:
                loss = self._loss(batch)  # expect: ESP103
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.updates += 1
                if self.updates % eval_every == 0:
                    print(self.updates, self.evaluate())
                    torch.save(self.model.state_dict(), f"nmt_{self.updates}.pt")
