import torch
import torch.nn as nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn


def train_swa(model, loader, val_loader, device, epochs=60, swa_start=45):
    model = model.to(device)
    swa_model = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=swa_start)
    swa_scheduler = SWALR(optimizer, swa_lr=0.02)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
        if epoch >= swa_start:
            swa_model.update_parameters(model)
            swa_scheduler.step()
        else:
            scheduler.step()

    # batch statistics of the averaged weights: needs train mode, and sets it itself
    update_bn(loader, swa_model, device=device)
    swa_model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in val_loader:
            correct += (swa_model(x.to(device)).argmax(1).cpu() == y).sum()
    return swa_model, correct.item() / len(val_loader.dataset)
