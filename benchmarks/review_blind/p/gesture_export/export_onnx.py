import argparse
import json
from pathlib import Path

import torch

from gesture_model import GestureNet


def load(ckpt_path):
    blob = torch.load(ckpt_path, map_location="cpu", weights_only=True)
    net = GestureNet(**blob["hparams"])
    net.load_state_dict(blob["ema"])
    return net, blob


def center(pts):
    """Wrist-relative coordinates scaled by palm size."""
    rel = pts - pts[:, :, :1]
    palm = rel[:, :, 9].norm(dim=-1).clamp(min=1e-4)
    return rel / palm[:, :, None, None]


class Deploy(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, pts):
        return self.net(center(pts)).softmax(dim=-1)


def export(net, out, frames, opset):
    module = Deploy(net)
    dummy = torch.rand(1, frames, 21, 3)
    torch.onnx.export(
        module, (dummy,), out,
        input_names=["landmarks"], output_names=["probs"],
        dynamic_axes={"landmarks": {0: "batch", 1: "time"},
                      "probs": {0: "batch", 1: "time"}},
        opset_version=opset, do_constant_folding=False,
        training=torch.onnx.TrainingMode.PRESERVE, dynamo=False)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("ckpt")
    ap.add_argument("--out", default="gesture.onnx")
    ap.add_argument("--frames", type=int, default=32)
    ap.add_argument("--opset", type=int, default=17)
    args = ap.parse_args()
    net, blob = load(args.ckpt)
    n = sum(p.numel() for p in net.parameters())
    print(f"{n / 1e6:.2f}M parameters, step {blob['step']}")
    export(net, args.out, args.frames, args.opset)
    meta = {"classes": blob["classes"], "opset": args.opset}
    Path(args.out).with_suffix(".json").write_text(json.dumps(meta, indent=1))


if __name__ == "__main__":
    main()
