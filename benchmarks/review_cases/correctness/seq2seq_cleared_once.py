"""Character level seq2seq with attention; teacher forcing half of the time."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

SOS, EOS, MAX_LEN = 0, 1, 30


class EncoderRNN(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)

    def forward(self, src):
        return self.gru(self.embedding(src))


class AttnDecoderRNN(nn.Module):
    def __init__(self, vocab, hidden, dropout=0.1):
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden)
        self.dropout = nn.Dropout(dropout)
        self.gru = nn.GRU(2 * hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, token, hidden, memory):
        emb = self.dropout(self.embedding(token))
        scores = torch.bmm(hidden.transpose(0, 1), memory.transpose(1, 2))
        context = torch.bmm(F.softmax(scores, dim=-1), memory)
        output, hidden = self.gru(torch.cat((emb, context), dim=-1), hidden)
        return self.out(output), hidden


def train(pairs, encoder, decoder, enc_opt, dec_opt, epochs, device, teacher_forcing=0.5):
    criterion = nn.CrossEntropyLoss()
    encoder.train()
    decoder.train()
    for epoch in range(epochs):
        enc_opt.zero_grad()
        dec_opt.zero_grad()
        random.shuffle(pairs)
        for src, tgt in pairs:
            src, tgt = src.to(device), tgt.to(device)
            memory, hidden = encoder(src)
            token = torch.full((src.size(0), 1), SOS, dtype=torch.long, device=device)
            steps = []
            forced = random.random() < teacher_forcing
            for t in range(tgt.size(1)):
                logits, hidden = decoder(token, hidden, memory)
                steps.append(logits)
                token = tgt[:, t : t + 1] if forced else logits.argmax(-1).detach()
            logits = torch.cat(steps, dim=1)
            loss = criterion(logits.reshape(-1, logits.size(-1)), tgt.reshape(-1))
            loss.backward()  # expect: ESP101
            enc_opt.step()
            dec_opt.step()
        print(f"epoch {epoch} last loss {loss.item():.4f}")
