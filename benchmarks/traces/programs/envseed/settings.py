import os


class Settings:
    def __init__(self):
        self.width = int(os.environ.get("WIDTH", "8"))
        self.steps = os.environ.get("STEPS", "3")
