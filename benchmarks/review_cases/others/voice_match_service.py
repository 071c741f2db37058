import io
import pickle
import urllib.request

import torch
import torch.nn as nn
import torch.nn.functional as F


class VoiceEncoder(nn.Module):
    def __init__(self, mels=80, dim=192):
        super().__init__()
        self.gru = nn.GRU(mels, 256, num_layers=2, batch_first=True)
        self.out = nn.Linear(256, dim)

    def forward(self, mel):
        _, h = self.gru(mel)
        return F.normalize(self.out(h[-1]), dim=-1)


class Gallery:
    """Voices of customers, fetched from the branch that enrolled them."""

    def __init__(self, url):
        with urllib.request.urlopen(url) as reply:
            self.voices = pickle.load(io.BytesIO(reply.read()))  # expect: ESP903
        self.names = sorted(self.voices)
        self.matrix = F.normalize(torch.stack([self.voices[name] for name in self.names]), dim=-1)

    def add(self, name, embedding):
        self.names.append(name)
        row = torch.tensor(embedding.detach()).unsqueeze(0)  # expect: ESP206
        self.matrix = torch.cat([self.matrix, row.to(self.matrix)])

    def nearest(self, embedding, threshold=0.7):
        scores = self.matrix @ embedding
        best = int(scores.argmax())
        return self.names[best] if scores[best] > threshold else None


def load_encoder(path):
    encoder = VoiceEncoder()
    encoder.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return encoder.eval()


@torch.inference_mode()
def identify(encoder, gallery, mel):
    return gallery.nearest(encoder(mel.unsqueeze(0))[0])
