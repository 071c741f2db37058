"""What agents may call. One file a tool, found by itself; each call yields evidence. Imports `review` and below."""
