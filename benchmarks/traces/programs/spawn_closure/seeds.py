import random


def seeder(base):
    def init(worker):
        random.seed(base + worker)

    return init
