"""Fine-tune a vision transformer with an effective batch of 1024."""
import torch
import torch.nn as nn
import timm
from torch.utils.data import DataLoader


def train_epoch(model, loader: DataLoader, optimizer, scaler, device, accum=8, max_norm=1.0):
    model.train()
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    running = torch.zeros((), device=device)
    optimizer.zero_grad(set_to_none=True)
    for i, (images, targets) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        targets = targets.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(images), targets) / accum
        scaler.scale(loss).backward()
        running += loss.detach() * accum
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
    return (running / len(loader)).item()


def main(dataset, epochs=30):
    device = torch.device("cuda")
    model = timm.create_model("vit_small_patch16_224", pretrained=True, num_classes=100).to(device)
    loader = DataLoader(dataset, 128, shuffle=True, num_workers=8, pin_memory=True, persistent_workers=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05)
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(epochs):
        print(epoch, train_epoch(model, loader, optimizer, scaler, device))
