"""Names the plants of a herbarium's sheets."""
import json

import torch
from torch.utils.data import DataLoader

from inference import run, saliency
from sheets import SheetNet, Sheets


def name_all(folder, weights, out, device="cuda"):
    model = SheetNet()
    model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    model.to(device).eval()
    sheets = Sheets(folder)
    loader = DataLoader(sheets, batch_size=64, num_workers=8, pin_memory=True)
    species, names = [], []
    with torch.inference_mode():
        for logits, name in run(model, loader, device):
            species.append(logits.argmax(1))
            names.extend(name)
    found = dict(zip(names, torch.cat(species).tolist()))
    with open(out, "w") as handle:
        json.dump(found, handle)
    return found


def explain(folder, weights, index, device="cuda"):
    model = SheetNet().to(device)
    model.load_state_dict(torch.load(weights, map_location=device, weights_only=True))
    model.eval()
    image, _ = Sheets(folder)[index]
    image = image.unsqueeze(0).to(device)
    with torch.no_grad():
        label = model(image).argmax(1)
    return saliency(model, image, label).squeeze(0).cpu()
