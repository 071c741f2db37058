import numpy as np
import torch
from torch.utils.data import Dataset


class Volumes(Dataset):
    """Patches of CT volumes; augmentation works on copies."""

    def __init__(self, files, size=64, augment=True):
        self.volumes = [np.load(f, mmap_mode="r") for f in files]
        self.size, self.augment = size, augment

    def __len__(self):
        return 1000 * len(self.volumes)

    def __getitem__(self, i):
        vol = self.volumes[i % len(self.volumes)]
        corner = [np.random.randint(0, s - self.size) for s in vol.shape]
        patch = vol[tuple(slice(c, c + self.size) for c in corner)].astype(np.float32).copy()
        x = torch.from_numpy(patch)
        if self.augment:
            x += 0.01 * torch.randn_like(x)
            x.clamp_(-1, 1)
        return x.unsqueeze(0)


def frames(env, steps):
    stack = np.zeros((4, 84, 84), np.uint8)
    out = []
    for _ in range(steps):
        stack = np.roll(stack, -1, axis=0)
        stack[-1] = env.render()
        out.append(torch.from_numpy(stack.copy()))
    return torch.stack(out)


def cloned(steps):
    state = np.zeros(3, np.float32)
    out = []
    for t in range(steps):
        state += 0.1
        out.append(torch.as_tensor(state).clone())
    return torch.stack(out)


def copied_by_tensor(steps):
    state = np.zeros(3, np.float32)
    out = []
    for t in range(steps):
        state[0] = t
        out.append(torch.tensor(state))
    return torch.stack(out)


def to_gpu(batches):
    buf = np.empty((64, 3), np.float32)
    for batch in batches:
        buf[: len(batch)] = batch
        yield torch.from_numpy(buf).cuda()


def from_lists(rows, labels):
    return torch.tensor([list(r) for r in rows]), torch.tensor(labels, dtype=torch.long), torch.tensor(np.array(rows))


def snapshot(model):
    return {k: v.detach().clone() for k, v in model.state_dict().items()}


def normalise(array):
    t = torch.from_numpy(array)
    return (t - t.mean()) / (t.std() + 1e-6)
