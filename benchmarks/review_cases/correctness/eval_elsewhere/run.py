import torch
import torch.nn.functional as F

from corpus import make_loaders
from evaluation import report
from network import TextLSTM

DEVICE = torch.device("cuda")
EPOCHS = 12


def fit():
    train_loader, dev_loader, vocab, classes = make_loaders("data/agnews")
    model = TextLSTM(len(vocab), classes).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        for tokens, lengths, labels in train_loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(tokens.to(DEVICE), lengths), labels.to(DEVICE))
            loss.backward()
            optimizer.step()
        print(epoch, report(model, dev_loader, DEVICE))


if __name__ == "__main__":
    fit()
