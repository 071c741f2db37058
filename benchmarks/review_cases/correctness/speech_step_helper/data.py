import pathlib

import torch
import torchaudio
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset


class SpeechFolder(Dataset):
    def __init__(self, root):
        self.items = sorted(pathlib.Path(root).rglob("*.flac"))
        self.mel = torchaudio.transforms.MelSpectrogram(16000, n_mels=80)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        wav, _ = torchaudio.load(self.items[i])
        text = self.items[i].with_suffix(".txt").read_text().strip().lower()
        target = torch.tensor([ord(c) - 96 if c.isalpha() else 27 for c in text])
        return (self.mel(wav[0]) + 1e-6).log(), target


def pad_batch(batch):
    mels, targets = zip(*batch)
    mel_lens = torch.tensor([m.size(1) for m in mels])
    tgt_lens = torch.tensor([len(t) for t in targets])
    mels = pad_sequence([m.t() for m in mels], batch_first=True).transpose(1, 2)
    return mels, torch.cat(targets), mel_lens, tgt_lens
