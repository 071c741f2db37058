"""What one step does; shared by pre-training and fine-tuning."""
import torch
import torch.nn.functional as F


def soft_dice(logits, mask, smooth=1.0):
    p = torch.sigmoid(logits).flatten(1)
    m = mask.flatten(1)
    overlap = (p * m).sum(1)
    return 1 - ((2 * overlap + smooth) / (p.sum(1) + m.sum(1) + smooth)).mean()


def optimise(net, optimizer, images, masks, clip=1.0):
    logits = net(images)
    loss = F.binary_cross_entropy_with_logits(logits, masks) + soft_dice(logits, masks)
    loss.backward()  # expect: ESP101 @clear
    torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
    optimizer.step()
    return loss.detach()
