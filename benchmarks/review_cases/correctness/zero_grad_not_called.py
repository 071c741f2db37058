"""Binary sentiment with a bag of embeddings; parentheses matter."""
import time

import torch
from torch import nn
from torch.utils.data import DataLoader


class TextClassificationModel(nn.Module):
    def __init__(self, vocab_size, embed_dim, num_class):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocab_size, embed_dim, sparse=False)
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(embed_dim, num_class)

    def forward(self, text, offsets):
        return self.fc(self.drop(self.embedding(text, offsets)))


def train(dataloader, model, criterion, optimizer, device):
    model.train()
    total_acc, total_count = torch.zeros((), device=device), 0
    start = time.time()
    for idx, (label, text, offsets) in enumerate(dataloader):
        label, text, offsets = label.to(device), text.to(device), offsets.to(device)
        optimizer.zero_grad
        predicted_label = model(text, offsets)
        loss = criterion(predicted_label, label)
        loss.backward()  # expect: ESP101
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        total_acc += (predicted_label.argmax(1) == label).sum()
        total_count += label.size(0)
    print(f"{time.time() - start:5.2f}s accuracy {(total_acc / total_count).item():8.3f}")


def evaluate(dataloader, model, device):
    model.eval
    hits, count = 0, 0
    with torch.no_grad():
        for label, text, offsets in dataloader:
            predicted = model(text.to(device), offsets.to(device))  # expect: ESP102
            hits += (predicted.argmax(1) == label.to(device)).sum()
            count += label.size(0)
    return (hits / count).item()


def main(train_iter: DataLoader, valid_iter: DataLoader, vocab, device="cuda"):
    model = TextClassificationModel(len(vocab), 64, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
    for epoch in range(10):
        train(train_iter, model, nn.CrossEntropyLoss(), optimizer, device)
        print(epoch, evaluate(valid_iter, model, device))
