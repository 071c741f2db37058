import torch


def split_decay(model, weight_decay):
    """No weight decay on biases and norm scales."""
    decay, plain = [], []
    for p in model.parameters():
        if not p.requires_grad:
            continue
        (decay if p.ndim > 1 else plain).append(p)
    return [{"params": decay, "weight_decay": weight_decay},
            {"params": plain, "weight_decay": 0.0}]


def build(model, cfg, steps_per_epoch):
    opt = torch.optim.AdamW(split_decay(model, cfg.weight_decay), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(
        opt, max_lr=cfg.lr, epochs=cfg.epochs, steps_per_epoch=steps_per_epoch,
        pct_start=0.1, div_factor=25)
    return opt, sched
