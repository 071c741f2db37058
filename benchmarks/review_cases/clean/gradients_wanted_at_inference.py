"""Saliency, Grad-CAM and guided sampling: evaluation that needs its gradients."""
import torch
import torch.nn.functional as F
from torchvision.models import resnet50


class GradCAM:
    def __init__(self, model, layer):
        self.model = model.eval()
        self.features = None
        layer.register_forward_hook(self._keep)

    def _keep(self, module, inputs, output):
        self.features = output
        output.retain_grad()

    def __call__(self, image, label=None):
        logits = self.model(image)
        label = logits.argmax(1) if label is None else label
        self.model.zero_grad()
        logits.gather(1, label.view(-1, 1)).sum().backward()
        weights = self.features.grad.mean(dim=(2, 3), keepdim=True)
        return F.relu((weights * self.features).sum(1)).detach()


def saliency(model, images):
    model.eval()
    maps = []
    for image in images:
        x = image.unsqueeze(0).requires_grad_(True)
        score = model(x).max()  # allow: ESP408
        (grad,) = torch.autograd.grad(score, x)
        maps.append(grad.abs().amax(1))
    return torch.cat(maps)


def guided_step(denoiser, classifier, x, t, y, scale=2.0):
    classifier.eval()
    with torch.enable_grad():
        x_in = x.detach().requires_grad_(True)
        logp = F.log_softmax(classifier(x_in, t), dim=-1)
        grad = torch.autograd.grad(logp[range(len(y)), y].sum(), x_in)[0]
    return denoiser(x, t) - scale * grad


def main(images):
    net = resnet50(weights="DEFAULT")
    cam = GradCAM(net, net.layer4)
    return cam(images), saliency(net, images)
