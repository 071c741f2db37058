from torch.utils.data import DataLoader, DistributedSampler


def build_loaders(train_set, dev_set, collate, per_gpu):
    sampler = DistributedSampler(train_set, shuffle=True, drop_last=True)  # expect: ESP204 @epoch
    train = DataLoader(
        train_set, batch_size=per_gpu, sampler=sampler, collate_fn=collate, num_workers=4, pin_memory=True
    )
    dev = DataLoader(
        dev_set,
        batch_size=2 * per_gpu,
        sampler=DistributedSampler(dev_set, shuffle=False),
        collate_fn=collate,
        num_workers=2,
        pin_memory=True,
    )
    return train, dev
