import torch
import torch.nn as nn
from transformers import AutoModel


class MultiLabel(nn.Module):
    def __init__(self, name, n_labels):
        super().__init__()
        self.encoder = AutoModel.from_pretrained(name)
        self.dropout = nn.Dropout(0.1)
        self.classifier = nn.Linear(self.encoder.config.hidden_size, n_labels)
        self.sigmoid = nn.Sigmoid()
        self.loss_fn = nn.BCEWithLogitsLoss()

    def forward(self, input_ids, attention_mask, labels=None):
        out = self.encoder(input_ids=input_ids, attention_mask=attention_mask)
        logits = self.classifier(self.dropout(out.last_hidden_state[:, 0]))
        probs = self.sigmoid(logits)
        if labels is None:
            return probs
        loss = self.loss_fn(probs, labels.float())  # expect: ESP201
        return loss, probs


def train(model, loader, optimizer, scheduler, device):
    model.train()
    losses = []
    for batch in loader:
        batch = {k: v.to(device) for k, v in batch.items()}
        loss, _ = model(**batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean().item()
