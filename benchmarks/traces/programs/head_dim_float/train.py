"""Train the language model on random text."""
import torch
from torch import nn

from settings import ModelSettings
from transformer import LanguageModel


def main():
    torch.manual_seed(0)
    settings = ModelSettings(heads=8)
    model = LanguageModel(settings)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(3):
        text = torch.randint(0, settings.vocabulary, (4, settings.context + 1))
        logits = model(text[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
