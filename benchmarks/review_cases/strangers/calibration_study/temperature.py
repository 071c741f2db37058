"""Temperature scaling of the retinopathy grader."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from collect import logits_of


class Temperature(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_t = nn.Parameter(torch.zeros(()))

    def forward(self, logits):
        return logits / self.log_t.exp()


def expected_calibration_error(logits, labels, bins=15):
    confidence, guess = logits.softmax(1).max(1)
    right = (guess == labels).float()
    edges = torch.linspace(0, 1, bins + 1, device=logits.device)
    which = torch.bucketize(confidence, edges[1:-1])
    error = logits.new_zeros(())
    for b in range(bins):
        inside = which == b
        share = inside.float().mean()
        gap = (right * inside).sum() - (confidence * inside).sum()
        error += share * gap.abs() / inside.sum().clamp(min=1)
    return error


def calibrate(model, valid_loader, test_loader, device="cuda"):
    model.load_state_dict(torch.load("grader.pt", map_location=device, weights_only=True))
    model.to(device)
    logits, labels = logits_of(model, valid_loader, device)
    scaler = Temperature().to(device)
    optimizer = torch.optim.LBFGS(scaler.parameters(), lr=0.1, max_iter=50)

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(scaler(logits.detach()), labels)
        loss.backward()
        return loss

    optimizer.step(closure)
    test_logits, test_labels = logits_of(model, test_loader, device)
    before = expected_calibration_error(test_logits.detach(), test_labels)
    after = expected_calibration_error(scaler(test_logits).detach(), test_labels)
    print(f"ECE {before.item():.4f} -> {after.item():.4f} at T = {scaler.log_t.exp().item():.2f}")
    return scaler
