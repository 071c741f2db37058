"""Memory use, leaks and the lines that retain tensors."""
