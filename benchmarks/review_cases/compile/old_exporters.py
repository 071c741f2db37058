import torch
import torchvision


def to_torchscript(path="r18.ts"):
    model = torchvision.models.resnet18(weights="DEFAULT").eval()
    scripted = torch.jit.script(model)  # expect: ESP514|ESP512
    scripted.save(path)
    return scripted


def to_onnx(path="r18.onnx"):
    model = torchvision.models.resnet18(weights="DEFAULT").eval()
    x = torch.randn(1, 3, 224, 224)
    torch.onnx.export(  # expect: ESP514
        model, x, path, opset_version=13, dynamo=False,
        input_names=["input"], output_names=["logits"], dynamic_axes={"input": {0: "batch"}, "logits": {0: "batch"}},
    )


def traced(model, example):
    model.eval()
    with torch.no_grad():
        return torch.jit.trace(model, example)  # expect: ESP514|ESP512


if __name__ == "__main__":
    to_torchscript()
    to_onnx()
    print(traced(torchvision.models.squeezenet1_1().eval(), torch.randn(1, 3, 224, 224)).graph)
