"""Measurement of input pipelines: loaders, their settings, and the cost of their lines."""
