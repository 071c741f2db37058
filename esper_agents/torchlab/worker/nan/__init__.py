"""Search for the first operation that produces NaN or Inf."""
