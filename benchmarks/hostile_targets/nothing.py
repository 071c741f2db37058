"""A target that does nothing, to see what is beside it."""


def nothing(x):
    return x
