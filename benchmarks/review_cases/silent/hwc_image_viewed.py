import argparse

import cv2
import torch
import torchvision


def prepare(path, size=640):
    image = cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)
    image = cv2.resize(image, (size, size))
    tensor = torch.from_numpy(image).float() / 255.0
    height, width, channels = tensor.shape
    return tensor.view(channels, height, width).unsqueeze(0)  # expect: ESP209


@torch.inference_mode()
def detect(model, path, threshold):
    device = next(model.parameters()).device
    (result,) = model(prepare(path).to(device))
    keep = result["scores"] > threshold
    return result["boxes"][keep].cpu(), result["labels"][keep].cpu()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("images", nargs="+")
    parser.add_argument("--threshold", type=float, default=0.6)
    args = parser.parse_args()
    model = torchvision.models.detection.fasterrcnn_resnet50_fpn(weights="DEFAULT")
    model.eval().to("cuda")
    for path in args.images:
        boxes, labels = detect(model, path, args.threshold)
        print(path, len(boxes), labels.tolist())


if __name__ == "__main__":
    main()
