"""Multi-label toxicity of comments: fastText vectors, bidirectional GRU, six labels."""
import torch
import torch.nn as nn
import torch.nn.functional as F

LABELS = ["toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate"]


class CommentNet(nn.Module):
    def __init__(self, vectors, hidden=80):
        super().__init__()
        self.embed = nn.Embedding.from_pretrained(vectors, freeze=True)
        self.spatial = nn.Dropout1d(0.2)
        self.gru = nn.GRU(vectors.shape[1], hidden, bidirectional=True, batch_first=True)
        self.out = nn.Linear(4 * hidden, len(LABELS))

    def forward(self, ids):
        states, _ = self.gru(self.spatial(self.embed(ids)))
        pooled = torch.cat([states.mean(1), states.amax(1)], dim=1)
        return torch.sigmoid(self.out(pooled))


def train_fold(vectors, train_loader, valid_loader, epochs=4, device="cuda"):
    model = CommentNet(vectors).to(device)
    optimizer = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), lr=1e-3)
    weight = torch.tensor([1.0, 4.0, 1.5, 8.0, 1.5, 4.0], device=device)
    for epoch in range(epochs):
        model.train()
        for ids, labels in train_loader:
            ids, labels = ids.to(device), labels.to(device).float()
            predictions = model(ids)
            loss = F.binary_cross_entropy_with_logits(predictions, labels, pos_weight=weight)  # expect: ESP201
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        model.eval()
        total = 0.0
        for ids, labels in valid_loader:
            guess = model(ids.to(device))  # expect: ESP302
            total += ((guess > 0.5).float() == labels.to(device)).float().mean()
        print(f"fold epoch {epoch}: accuracy {total / len(valid_loader):.4f}")
    return model
