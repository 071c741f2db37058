"""Static review of PyTorch code: `engine.review` reads files and returns diagnostics of `rules/`."""
