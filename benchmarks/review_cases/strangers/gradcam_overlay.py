"""Grad-CAM overlays for the radiologists' review sheet."""
import torch
import torch.nn.functional as F


class GradCAM:
    def __init__(self, model, layer):
        self.model = model.eval()
        self.kept = {}
        layer.register_forward_hook(self._keep)

    def _keep(self, module, inputs, output):
        self.kept["maps"] = output
        output.register_hook(lambda grad: self.kept.__setitem__("grads", grad))

    def __call__(self, image, finding):
        """Return a map between 0 and 1 of the size of the image."""
        logits = self.model(image)
        self.model.zero_grad()
        logits[:, finding].sum().backward()
        maps, grads = self.kept["maps"].detach(), self.kept["grads"]
        weights = grads.mean(dim=(2, 3), keepdim=True)
        cam = F.relu((weights * maps).sum(dim=1, keepdim=True))
        cam = F.interpolate(cam, size=image.shape[-2:], mode="bilinear", align_corners=False)
        cam = cam / cam.amax(dim=(2, 3), keepdim=True)  # expect: ESP211
        return cam.squeeze(1)


def overlay(image, cam, strength=0.4):
    colour = torch.stack([cam, torch.zeros_like(cam), 1 - cam], dim=1)
    return (1 - strength) * image + strength * colour
