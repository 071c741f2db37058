import json
from pathlib import Path

import torch
import torch.nn.functional as F
from PIL import Image
from torchvision import transforms
from torchvision.models import ViT_B_16_Weights, vit_b_16

PREPARE = transforms.Compose([
    transforms.Resize(224), transforms.CenterCrop(224), transforms.ToTensor(),
    transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
])  # fmt: skip


class ArtIndex:
    def __init__(self, device="cuda"):
        self.device = device
        self.model = vit_b_16(weights=ViT_B_16_Weights.DEFAULT)
        self.model.heads = torch.nn.Identity()
        self.model.eval().to(device)
        self.names, self.vectors = [], None

    @torch.inference_mode()
    def build(self, folder):
        images = [(p.stem, PREPARE(Image.open(p).convert("RGB"))) for p in sorted(Path(folder).glob("*.jpg"))]
        gpu_images = []
        for _, tensor in images:
            gpu_images.append(tensor.to(self.device))  # expect: ESP410
        vectors = []
        for picture in gpu_images:
            vectors.append(self.model(picture.unsqueeze(0)))  # expect: ESP408
        self.vectors = F.normalize(torch.cat(vectors), dim=1)
        self.names = [name for name, _ in images]

    @torch.inference_mode()
    def search(self, path, k=5):
        query = self.model(PREPARE(Image.open(path).convert("RGB")).unsqueeze(0).to(self.device))
        best = (self.vectors @ F.normalize(query, dim=1).T).squeeze(1).topk(k)
        return [(self.names[i], s) for s, i in zip(best.values.tolist(), best.indices.tolist())]


if __name__ == "__main__":
    index = ArtIndex()
    index.build("paintings")
    print(json.dumps(index.search("query.jpg"), indent=2))
