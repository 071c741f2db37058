"""Static review of PyTorch code: `engine.review` reads files and returns claims; each rule is a file in `rules/`."""
