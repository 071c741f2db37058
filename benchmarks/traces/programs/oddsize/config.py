SETTINGS = {"width": 4, "side": 33, "batch": 2}
