"""Fine-tune the polyp segmenter on the hospital's own recordings."""
import torch
from torch.utils.data import DataLoader

from steps import optimise


def run(net, train_set, epochs=40, lr=3e-4, device="cuda"):
    net = net.to(device)
    net.train()
    loader = DataLoader(train_set, batch_size=12, shuffle=True, num_workers=6, pin_memory=True, drop_last=True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=lr, weight_decay=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for epoch in range(epochs):
        total = torch.zeros((), device=device)
        for images, masks in loader:
            images, masks = images.to(device, non_blocking=True), masks.to(device, non_blocking=True)
            total += optimise(net, optimizer, images, masks)  # expect: ESP101 @clear
        scheduler.step()
        print(f"epoch {epoch}: {total.item() / len(loader):.4f}")
    return net
