import torch

from metric import Embedder, TripletMiner, pairwise


def main():
    torch.manual_seed(0)
    torch.autograd.set_detect_anomaly(True)
    model, miner = Embedder(), TripletMiner()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(3):
        x, y = torch.randn(12, 5), torch.randint(0, 3, (12,))
        z = model(x)
        loss = miner(z, y) + 0.01 * pairwise(z).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
