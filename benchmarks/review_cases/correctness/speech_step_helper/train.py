import argparse

import torch
from torch.utils.data import DataLoader

from data import SpeechFolder, pad_batch
from engine import StepConfig, ctc_loss, optimize
from model import SpeechNet


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("root")
    ap.add_argument("--epochs", type=int, default=20)
    ap.add_argument("--batch-size", type=int, default=16)
    args = ap.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(SpeechFolder(args.root), args.batch_size, shuffle=True, collate_fn=pad_batch, num_workers=8, pin_memory=True)
    model = SpeechNet(n_mels=80, vocab=29).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-4, total_steps=args.epochs * len(loader))
    cfg = StepConfig()

    model.train()
    for epoch in range(args.epochs):
        for step, (mels, targets, mel_lens, tgt_lens) in enumerate(loader):
            log_probs, out_lens = model(mels.to(device), mel_lens)
            loss = ctc_loss(log_probs, targets.to(device), out_lens, tgt_lens)
            optimize(loss, optimizer, scheduler, model.parameters(), cfg)  # expect: ESP101 @step
            if step % cfg.log_every == 0:
                print(f"{epoch}:{step} {loss.item():.3f}")


if __name__ == "__main__":
    main()
