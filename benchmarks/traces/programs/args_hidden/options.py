"""Command line of the forecaster."""
import argparse


def build_parser():
    parser = argparse.ArgumentParser(description="Forecast hourly load.")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--window", type=int, default=24)
    parser.add_argument("--hidden", default="64", help="units of the recurrent layer")
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--lr", type=float, default=1e-3)
    return parser
