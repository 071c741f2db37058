import contextlib

import torch


@contextlib.contextmanager
def evaluating(*modules):
    """Puts modules in evaluation mode without gradients, and back as each was."""
    before = [module.training for module in modules]
    for module in modules:
        module.eval()
    try:
        with torch.inference_mode():
            yield modules
    finally:
        for module, was_training in zip(modules, before):
            module.train(was_training)
