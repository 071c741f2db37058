"""Evaluate semantic segmentation checkpoints on the drone validation set."""
import argparse
import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.models.segmentation import deeplabv3_resnet50
from torchvision.transforms import functional as TF

CLASSES = ["background", "road", "building", "tree", "car", "person", "water"]
IGNORE = 255


class DroneVal(Dataset):
    def __init__(self, root, size=(512, 768)):
        root = Path(root)
        self.pairs = [(p, root / "masks" / (p.stem + ".png"))
                      for p in sorted((root / "images").glob("*.jpg"))]
        self.size = size

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        ip, mp = self.pairs[i]
        img = TF.resize(Image.open(ip).convert("RGB"), self.size)
        mask = TF.resize(Image.open(mp), self.size, interpolation=TF.InterpolationMode.NEAREST)
        img = TF.normalize(TF.to_tensor(img), [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
        return img, torch.from_numpy(np.array(mask, dtype=np.int64))


def batch_iou(pred, target, n):
    """Per-class IoU of a batch; absent classes give NaN."""
    valid = target != IGNORE
    idx = target[valid] * n + pred[valid]
    conf = torch.bincount(idx, minlength=n * n).view(n, n).double()
    inter = conf.diag()
    union = conf.sum(0) + conf.sum(1) - inter
    return torch.where(union > 0, inter / union.clamp(min=1), torch.full_like(union, float("nan")))


class SegEvaluator:
    def __init__(self, model, device, n_classes):
        self.model = model.to(device).eval()
        self.device, self.n = device, n_classes

    def predict(self, img):
        logits = self.model(img)["out"]
        flipped = self.model(img.flip(-1))["out"].flip(-1)
        prob = (logits + flipped).softmax(dim=1)
        return prob.argmax(dim=-1)

    @torch.inference_mode()
    def run(self, loader):
        per_batch, acc_hit, acc_n = [], 0, 0
        for img, mask in loader:
            img, mask = img.to(self.device), mask.to(self.device)
            pred = self.predict(img)
            valid = mask != IGNORE
            acc_hit += (pred[valid] == mask[valid]).sum().item()
            acc_n += valid.sum().item()
            per_batch.append(batch_iou(pred, mask, self.n).cpu())
        iou = torch.stack(per_batch).nanmean(dim=0)
        return {"pixel_acc": acc_hit / acc_n, "miou": iou.nanmean().item(),
                "per_class": dict(zip(CLASSES, iou.tolist()))}


def load_model(path, n_classes):
    model = deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=n_classes)
    state = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    return model


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--root", required=True)
    ap.add_argument("--ckpt", required=True)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--json", default=None)
    args = ap.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(DroneVal(args.root), args.batch, num_workers=4, pin_memory=True)
    ev = SegEvaluator(load_model(args.ckpt, len(CLASSES)), device, len(CLASSES))
    res = ev.run(loader)
    print(json.dumps(res, indent=2))
    if args.json:
        Path(args.json).write_text(json.dumps(res))


if __name__ == "__main__":
    main()
