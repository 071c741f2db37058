"""Three models that do not fit the card together take turns on it."""
import torch
import torch.nn as nn


class Stage:
    """Brings a model to the device while it is needed."""

    def __init__(self, model, device):
        self.model, self.device = model, device

    def __enter__(self):
        return self.model.to(self.device).eval()

    def __exit__(self, *_):
        self.model.to("cpu")


@torch.inference_mode()
def text_to_image(text_encoder, denoiser, decoder, prompts, steps=20, device="cuda"):
    with Stage(text_encoder, device) as encode:
        words = encode(prompts.to(device))
    latents = torch.randn(len(prompts), 4, 8, 8, device=device)
    with Stage(denoiser, device) as denoise:
        for t in torch.linspace(1, 0, steps + 1, device=device)[:-1]:
            latents = latents - denoise(latents, t.expand(len(prompts)), words) / steps
    with Stage(decoder, device) as decode:
        return decode(latents).clamp(-1, 1).cpu()


def distil(teachers, student, loader, device="cuda"):
    """Each teacher goes to the device once, for a whole pass over the data."""
    student.to(device).train()
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-4)
    for teacher in teachers:
        teacher.to(device).eval()
        for (x,) in loader:
            x = x.to(device)
            with torch.no_grad():
                wanted = teacher(x)
            loss = nn.functional.mse_loss(student(x), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        teacher.cpu()
    return student


if __name__ == "__main__":
    class Denoise(nn.Module):
        def forward(self, x, t, words):
            return x * t.view(-1, 1, 1, 1) + words.mean()

    prompts = torch.randint(0, 9, (2, 5))
    print(text_to_image(nn.Embedding(9, 4), Denoise(), nn.Conv2d(4, 3, 1), prompts, 2, "cpu").shape)
    distil([nn.Linear(3, 2)], nn.Linear(3, 2), [(torch.randn(4, 3),)], "cpu")
