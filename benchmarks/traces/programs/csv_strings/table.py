import csv
import io

TEXT = "age,income,bought\n31,2400,1\n45,3100,0\n23,1800,1\n"


def rows():
    return list(csv.reader(io.StringIO(TEXT)))[1:]


def split(records):
    return [r[:-1] for r in records], [int(r[-1]) for r in records]
