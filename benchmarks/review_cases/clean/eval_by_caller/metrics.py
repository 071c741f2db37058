import torch


def predictions(net, batches, device):
    """Run the network over batches; the caller has it in evaluation mode, without gradients."""
    out = []
    for x, _ in batches:
        out.append(net(x.to(device)).argmax(-1))
    return torch.cat(out)


def error_rate(net, batches, device):
    gold = torch.cat([y for _, y in batches]).to(device)
    return (predictions(net, batches, device) != gold).float().mean()
