import torch
import torch.nn as nn


class SentimentBiLSTM(nn.Module):
    def __init__(self, vocab_size, emb_dim=300, hidden_dim=256, n_classes=3, pad=0):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, emb_dim, padding_idx=pad)
        self.lstm = nn.LSTM(emb_dim, hidden_dim, num_layers=2, bidirectional=True, dropout=0.5, batch_first=True)
        self.fc = nn.Linear(hidden_dim, n_classes)  # expect: ESP205
        self.dropout = nn.Dropout(0.5)

    def forward(self, text, lengths):
        embedded = self.dropout(self.embedding(text))
        packed = nn.utils.rnn.pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (hidden, _) = self.lstm(packed)
        both = torch.cat((hidden[-2], hidden[-1]), dim=1)
        return self.fc(self.dropout(both))


def train(model, iterator, optimizer, criterion, device):
    model.train()
    epoch_loss = torch.zeros((), device=device)
    for text, lengths, label in iterator:
        text, label = text.to(device), label.to(device)
        optimizer.zero_grad()
        loss = criterion(model(text, lengths), label)
        loss.backward()
        optimizer.step()
        epoch_loss += loss.detach()
    return epoch_loss.item() / len(iterator)


def main(iterator, vocab_size, device="cuda"):
    model = SentimentBiLSTM(vocab_size).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    criterion = nn.CrossEntropyLoss().to(device)
    for epoch in range(10):
        print(epoch, train(model, iterator, optimizer, criterion, device))
