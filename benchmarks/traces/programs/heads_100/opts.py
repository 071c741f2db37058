import argparse


def get_opts(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("--embed", type=int, default=100)
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--layers", type=int, default=1)
    return p.parse_args(argv)
