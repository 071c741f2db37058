"""Another file of the user's."""


def decide(y):
    if y.sum() > 0:  # break for in_another_file
        return y
    return -y
