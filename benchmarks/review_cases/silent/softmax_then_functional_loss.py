import torch
import torch.nn.functional as nnf
from torch import nn, optim


class SpeechCommandNet(nn.Module):
    def __init__(self, n_class):
        super().__init__()
        self.gru = nn.GRU(40, 128, num_layers=2, batch_first=True, dropout=0.1)
        self.fc = nn.Linear(128, n_class)

    def forward(self, mfcc):
        _, h = self.gru(mfcc)
        return self.fc(h[-1])


def training_step(model, batch, weights=None):
    logits = model(batch["mfcc"].cuda())
    probs = torch.softmax(logits, -1)
    loss = nnf.cross_entropy(probs, batch["label"].cuda(), weight=weights)  # expect: ESP201
    with torch.no_grad():
        accuracy = (probs.argmax(-1) == batch["label"].cuda()).float().mean()
    return loss, accuracy


def main(loader, n_class=35, epochs=20):
    model = SpeechCommandNet(n_class).cuda()
    optimizer = optim.AdamW(model.parameters(), 1e-3)
    for epoch in range(epochs):
        model.train()
        accs = []
        for batch in loader:
            loss, acc = training_step(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            accs.append(acc)
        print(epoch, torch.stack(accs).mean().item())
