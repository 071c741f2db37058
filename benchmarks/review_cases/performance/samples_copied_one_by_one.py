import glob

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torchvision.models import convnext_tiny


def load(path):
    return torch.from_numpy(np.asarray(Image.open(path).convert("RGB").resize((224, 224)))).permute(2, 0, 1).float() / 255


def batches(paths, size):
    for i in range(0, len(paths), size):
        yield [load(p) for p in paths[i : i + size]]


@torch.inference_mode()
def classify(folder, device="cuda", size=64):
    model = convnext_tiny(weights="DEFAULT").to(device).eval()
    results = []
    for images in batches(sorted(glob.glob(f"{folder}/*.jpg")), size):
        moved = []
        for image in images:
            moved.append(image.to(device))  # expect: ESP410
        probs = F.softmax(model(torch.stack(moved)), dim=-1)
        results.append(probs.topk(5))
    return results


def stack_on_device(samples, device):
    batch = torch.stack([s.cuda() for s in samples])  # expect: ESP410
    return batch.to(device)


if __name__ == "__main__":
    print(len(classify("photos")), stack_on_device([torch.zeros(3)] * 4, "cuda").shape)
