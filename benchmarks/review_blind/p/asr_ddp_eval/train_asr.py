import argparse

import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import comm
from acoustic import ConvCTC, greedy
from speech_data import MelManifest, edit_distance, pad_batch


def loader(manifest, batch, train):
    ds = MelManifest(manifest)
    sampler = DistributedSampler(ds, comm.world(), comm.rank(), shuffle=train)
    return DataLoader(ds, batch, sampler=sampler, collate_fn=pad_batch, num_workers=4, drop_last=train)


@torch.no_grad()
def char_error_rate(net, dl, device):
    net.eval()
    errs = chars = 0
    for mel, n_frames, refs, _, _ in dl:
        logp = net(mel.to(device))
        for hyp, ref in zip(greedy(logp, net.out_lengths(n_frames)), refs):
            errs += edit_distance(hyp, ref)
            chars += len(ref)
    errs, chars = comm.sum_across([errs, chars], device)
    return errs / max(1.0, chars)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--train", required=True)
    ap.add_argument("--dev", required=True)
    ap.add_argument("--epochs", type=int, default=40)
    args = ap.parse_args()
    device = comm.init()
    torch.manual_seed(21)
    net = ConvCTC().to(device)
    ddp = DistributedDataParallel(net, device_ids=[device.index]) if comm.is_dist() else net
    tl, dl = loader(args.train, 24, True), loader(args.dev, 32, False)
    opt = torch.optim.AdamW(ddp.parameters(), 4e-4, weight_decay=1e-3)
    for epoch in range(args.epochs):
        tl.sampler.set_epoch(epoch)
        ddp.train()
        for mel, n_frames, _, tgt, n_tgt in tl:
            logp = ddp(mel.to(device)).transpose(0, 1)
            loss = F.ctc_loss(logp, tgt.to(device), net.out_lengths(n_frames).to(device),
                              n_tgt.to(device), zero_infinity=True)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(ddp.parameters(), 5.0)
            opt.step()
        if comm.is_main():
            cer = char_error_rate(net, dl, device)
            print(f"epoch {epoch} cer {cer:.4f}")
            torch.save(net.state_dict(), "asr.pt")
        comm.barrier()
    comm.shutdown()


if __name__ == "__main__":
    main()
