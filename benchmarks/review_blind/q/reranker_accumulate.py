"""Cross-encoder reranker trained with gradient accumulation."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class ListwiseLoss(nn.Module):
    def __init__(self, temperature=1.0):
        super().__init__()
        self.temperature = temperature

    def forward(self, scores, relevance):
        target = F.softmax(relevance.float() / self.temperature, dim=-1)
        return -(target * F.log_softmax(scores, dim=-1)).sum(-1).mean()


class CrossEncoder(nn.Module):
    def __init__(self, encoder, hidden, dropout=0.1):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(hidden, 1))

    def forward(self, input_ids, attention_mask):
        B, K, T = input_ids.shape
        states = self.encoder(input_ids.flatten(0, 1), attention_mask.flatten(0, 1))
        return self.head(states[:, 0]).view(B, K)


def split_decay(model, weight_decay):
    decay, plain = [], []
    for param in model.parameters():
        if param.requires_grad:
            (plain if param.ndim < 2 else decay).append(param)
    return [{"params": decay, "weight_decay": weight_decay},
            {"params": plain, "weight_decay": 0.0}]


class RerankTrainer:
    def __init__(self, model, lr=2e-5, weight_decay=0.01, accumulate=8, max_norm=1.0,
                 warmup_ratio=0.1, device="cuda"):
        self.model = model.to(device)
        self.optimizer = torch.optim.AdamW(split_decay(model, weight_decay), lr=lr)
        self.criterion = ListwiseLoss()
        self.accumulate = accumulate
        self.max_norm = max_norm
        self.warmup_ratio = warmup_ratio
        self.device = device

    def make_schedule(self, updates):
        warm = max(1, int(updates * self.warmup_ratio))

        def ratio(step):
            if step < warm:
                return (step + 1) / warm
            return max(0.0, (updates - step) / max(1, updates - warm))

        return torch.optim.lr_scheduler.LambdaLR(self.optimizer, ratio)

    def micro_step(self, batch):
        batch = {k: v.to(self.device) for k, v in batch.items()}
        scores = self.model(batch["input_ids"], batch["attention_mask"])
        loss = self.criterion(scores, batch["relevance"])
        (loss / self.accumulate).backward()
        return loss.detach()

    def train(self, loader, epochs):
        per_epoch = math.ceil(len(loader) / self.accumulate)
        schedule = self.make_schedule(per_epoch * epochs)
        for epoch in range(epochs):
            self.model.train()
            self.optimizer.zero_grad(set_to_none=True)
            total = torch.zeros((), device=self.device)
            for i, batch in enumerate(loader):
                total += self.micro_step(batch)
                if (i + 1) % self.accumulate == 0 or i + 1 == len(loader):
                    nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
                    self.optimizer.step()
                    schedule.step()
                    self.optimizer.zero_grad(set_to_none=True)
            print(f"epoch {epoch}: loss {total.item() / len(loader):.4f}")
