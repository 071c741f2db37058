import torch


def scaled_update(scaler, loss, optimizer, parameters, max_norm):
    """Backward, clip and step under a gradient scaler."""
    parameters = list(parameters)
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)  # expect: ESP503
    scaler.step(optimizer)
    scaler.update()
