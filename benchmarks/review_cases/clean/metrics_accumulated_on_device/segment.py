import torch
import torch.nn.functional as F

from metrics import ConfusionMatrix, SmoothedValue


def train_one_epoch(model, loader, opt, device, scaler, every=50):
    model.train()
    meter = SmoothedValue()
    for i, (image, target) in enumerate(loader):
        image, target = image.to(device, non_blocking=True), target.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.float16):
            loss = F.cross_entropy(model(image)["out"], target, ignore_index=255)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        meter.update(loss.detach())
        if i % every == 0:
            print(i, float(meter.mean))


def evaluate(model, loader, device, classes):
    model.eval()
    matrix = ConfusionMatrix(classes, device)
    with torch.inference_mode():
        for image, target in loader:
            output = model(image.to(device))["out"]
            matrix.update(output.argmax(1).flatten(), target.to(device).flatten())
    return matrix.reduce().iou()
