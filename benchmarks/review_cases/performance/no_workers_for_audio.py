import torch
import torch.nn.functional as F
import torchaudio
from torch.utils.data import DataLoader, Dataset
from transformers import Wav2Vec2ForSequenceClassification


class Clips(Dataset):
    def __init__(self, rows, rate=16000, seconds=4):
        self.rows, self.rate, self.n = rows, rate, rate * seconds

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        path, label = self.rows[i]
        wav, sr = torchaudio.load(path)
        wav = torchaudio.functional.resample(wav.mean(0), sr, self.rate)
        return F.pad(wav, (0, max(0, self.n - len(wav))))[: self.n], label


def train(rows, epochs=5, device="cuda"):
    model = Wav2Vec2ForSequenceClassification.from_pretrained("facebook/wav2vec2-base", num_labels=8).to(device)
    loader = DataLoader(Clips(rows), 16, shuffle=True, drop_last=True, num_workers=0)  # expect: ESP406  # allow: ESP413
    opt = torch.optim.AdamW(model.parameters(), 3e-5)
    model.train()
    for epoch in range(epochs):
        for step, (wav, label) in enumerate(loader):
            logits = model(wav.to(device)).logits
            loss = F.cross_entropy(logits, label.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 25 == 0:
                print(epoch, step, loss.item())
