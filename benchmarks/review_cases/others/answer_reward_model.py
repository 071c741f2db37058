import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import AutoModel, AutoTokenizer


class RewardModel(nn.Module):
    def __init__(self, base="microsoft/deberta-v3-base"):
        super().__init__()
        self.backbone = AutoModel.from_pretrained(base)
        self.value = nn.Linear(self.backbone.config.hidden_size, 1)

    def forward(self, input_ids, attention_mask):
        hidden = self.backbone(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return self.value(hidden[:, 0])


def collate(tokenizer):
    def pack(rows):
        batch = tokenizer([r["answer"] for r in rows], padding=True, truncation=True, return_tensors="pt")
        batch["rating"] = torch.tensor([r["rating"] for r in rows], dtype=torch.float32)
        return batch

    return pack


def agreement(model, loader, device):
    """Share of pairs inside each batch that the model ranks as people did."""
    agreed = total = 0
    with torch.no_grad():
        for batch in loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            rating = batch.pop("rating")
            score = model(batch["input_ids"], batch["attention_mask"]).squeeze(-1)  # expect: ESP102
            human = rating[:, None] > rating[None]
            agreed = agreed + (human & (score[:, None] > score[None])).sum()
            total = total + human.sum()
    return (agreed / total.clamp(min=1)).item()


def train(train_loader, val_loader, device="cuda", epochs=2):
    model = RewardModel().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for epoch in range(epochs):
        model.train()
        for batch in train_loader:
            batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}
            rating = batch.pop("rating")
            predicted = model(**batch)
            loss = F.mse_loss(predicted, rating)  # expect: ESP105
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, agreement(model, val_loader, device))
    return model, AutoTokenizer.from_pretrained("microsoft/deberta-v3-base")
