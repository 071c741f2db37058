import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from backbone import load_encoder

TF = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()])


class Folder(Dataset):
    def __init__(self, root):
        self.files = sorted(Path(root).glob("**/*.jpg"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        return TF(Image.open(self.files[i]).convert("RGB")), i


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("images")
    ap.add_argument("--weights", default="encoder.pt")
    ap.add_argument("--out", default="index.npy")
    args = ap.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoder = load_encoder(args.weights, device)
    files = Folder(args.images)
    loader = DataLoader(files, batch_size=256, num_workers=8, pin_memory=True)
    vectors = torch.empty(len(files), 256)
    with torch.inference_mode():
        for images, where in loader:
            vectors[where] = F.normalize(encoder(images.to(device, non_blocking=True)), dim=-1).cpu()
    np.save(args.out, vectors.numpy())


if __name__ == "__main__":
    main()
