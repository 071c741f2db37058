import configparser

INI = """
[model]
inputs = 4
hidden = 32
[train]
rate = 0.01
"""


def read():
    parser = configparser.ConfigParser()
    parser.read_string(INI)
    return parser
