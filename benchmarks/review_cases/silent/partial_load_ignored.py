"""Resume a detector from a checkpoint whose names may have changed."""
import argparse

import torch
import torchvision


def build(num_classes):
    return torchvision.models.detection.retinanet_resnet50_fpn_v2(weights=None, num_classes=num_classes)


def resume(model, path, device):
    checkpoint = torch.load(path, map_location=device, weights_only=True)
    state = checkpoint.get("state_dict", checkpoint)
    state = {k.replace("module.", ""): v for k, v in state.items()}
    model.load_state_dict(state, strict=False)  # expect: ESP203
    print(f"loaded weights of epoch {checkpoint.get('epoch', 0)} from {path}")
    return checkpoint.get("epoch", 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ckpt", required=True)
    parser.add_argument("--classes", type=int, default=91)
    args = parser.parse_args()
    device = torch.device("cuda")
    model = build(args.classes).to(device)
    start = resume(model, args.ckpt, device)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.01, momentum=0.9)
    print("continuing at", start, "with", len(params), "tensors", optimizer)


if __name__ == "__main__":
    main()
