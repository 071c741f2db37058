"""Acoustic model of a text-to-speech system, in half precision."""
import torch
import torch.nn.functional as F
from torch.cuda.amp import GradScaler, autocast  # expect: ESP502

from scaling import scaled_update


def train(model, loader, epochs, device="cuda"):
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.8, 0.99))
    scaler = GradScaler()  # allow: ESP502
    for epoch in range(epochs):
        for phonemes, durations, mel in loader:
            phonemes, durations, mel = phonemes.to(device), durations.to(device), mel.to(device)
            with autocast():  # allow: ESP502
                guess, spoken = model(phonemes, durations)
                loss = F.l1_loss(guess, mel) + F.mse_loss(spoken, torch.log1p(durations.float()))
            optimizer.zero_grad()
            scaled_update(scaler, loss, optimizer, model.parameters(), 1.0)
        print(epoch, scaler.get_scale())
