CFG = dict(dim=16, heads=2, max_len=16, vocab=40)
