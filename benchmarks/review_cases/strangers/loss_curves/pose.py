"""Human pose: heat maps of joints and a bone-length prior."""
import torch
import torch.nn.functional as F

from curves import Curves

BONES = torch.tensor([[0, 1], [1, 2], [2, 3], [0, 4], [4, 5], [5, 6]])


def soft_argmax(heat):
    b, j, h, w = heat.shape
    p = heat.flatten(2).softmax(-1).view(b, j, h, w)
    xs = torch.linspace(0, 1, w, device=heat.device)
    ys = torch.linspace(0, 1, h, device=heat.device)
    return torch.stack([(p.sum(2) * xs).sum(-1), (p.sum(3) * ys).sum(-1)], dim=-1)


def train(net, loader, epochs, device="cuda"):
    net.to(device)
    bones = BONES.to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    curves = Curves()
    for epoch in range(epochs):
        net.train()
        for image, heat, joints in loader:
            image, heat, joints = image.to(device), heat.to(device), joints.to(device)
            guess = net(image)
            heat_loss = F.mse_loss(guess, heat)
            at = soft_argmax(guess)
            want = joints[:, bones[:, 0]] - joints[:, bones[:, 1]]
            bone_loss = F.l1_loss(at[:, bones[:, 0]] - at[:, bones[:, 1]], want)
            loss = heat_loss + 0.1 * bone_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            curves.add(heat=heat_loss, bone=bone_loss)  # expect: ESP301 @kept
        print(epoch, curves.close())
