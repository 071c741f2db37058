import argparse

import torch
from torch.utils.data import DataLoader

from ema import ParamEMA, evaluating
from lm import LM, LMConfig
from packed import PackedTokens


@torch.no_grad()
def held_out(model, loader, device):
    with evaluating(model):
        tot, n = torch.zeros((), device=device), 0
        for ids in loader:
            ids = ids.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                tot += model(ids).float() * ids.size(0)
            n += ids.size(0)
    return (tot / n).item()


def cycle(loader):
    while True:
        yield from loader


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--train", required=True)
    ap.add_argument("--val", required=True)
    ap.add_argument("--steps", type=int, default=40_000)
    ap.add_argument("--log-every", type=int, default=100)
    ap.add_argument("--val-every", type=int, default=2000)
    args = ap.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda")
    cfg = LMConfig()
    tl = DataLoader(PackedTokens(args.train, cfg.ctx + 1), 48, shuffle=True, num_workers=4,
                    pin_memory=True, drop_last=True)
    vl = DataLoader(PackedTokens(args.val, cfg.ctx + 1), 48, num_workers=2, pin_memory=True)
    model = LM(cfg).to(device)
    ema = ParamEMA(model)
    opt = torch.optim.AdamW(model.parameters(), 6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 6e-4, total_steps=args.steps, pct_start=0.02)
    fwd = torch.compile(model)
    window = torch.zeros((), device=device)
    for step, ids in zip(range(1, args.steps + 1), cycle(tl)):
        ids = ids.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = fwd(ids)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        opt.zero_grad(set_to_none=True)
        ema.update(model)
        window += loss.detach()
        if step % args.log_every == 0:
            print(f"{step} loss {window.item() / args.log_every:.4f}")
            window.zero_()
        if step % args.val_every == 0:
            print(f"{step} ema val {held_out(ema.model, vl, device):.4f}")
            torch.save({"model": model.state_dict(), "ema": ema.state_dict()}, "lm.pt")


if __name__ == "__main__":
    main()
