import torch

from big import Big, empty_model, load_body


def pretrained():
    return {k: v for k, v in Big().state_dict().items() if k.startswith("body.")}


def main(device="cpu"):
    model, missing = load_body(empty_model(classes=3), pretrained())
    model = model.to(device)
    print(model(torch.randn(1, 16)))


if __name__ == "__main__":
    main()
