"""CTC speech recognition on LibriSpeech."""
import torch
import torch.nn as nn

from tracker import Tracker


class Recognizer(nn.Module):
    def __init__(self, mels=80, dim=256, letters=29):
        super().__init__()
        self.sub = nn.Conv1d(mels, dim, 5, stride=2, padding=2)
        self.rnn = nn.GRU(dim, dim, 4, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * dim, letters)

    def forward(self, mel):
        h = torch.relu(self.sub(mel)).transpose(1, 2)
        h, _ = self.rnn(h)
        return self.out(h).log_softmax(-1)


def train(loader, epochs=20, device="cuda"):
    net = Recognizer().to(device)
    ctc = nn.CTCLoss(zero_infinity=True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4)
    tracker = Tracker()
    for epoch in range(epochs):
        net.train()
        for mel, frames, text, letters in loader:
            log_probs = net(mel.to(device)).transpose(0, 1)
            loss = ctc(log_probs, text.to(device), (frames + 1) // 2, letters)
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            optimizer.step()
            tracker.update(ctc=loss, norm=norm)  # expect: ESP305 @read
        print(epoch, tracker.line())
    return net
