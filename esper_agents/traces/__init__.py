"""Stack traces and error messages: parsed, located in the project, classified and explained.

`parsing` finds the traces of a text, `locate` maps their frames to lines of the project, `families` holds what is
known about each kind of error (one file each in `families/`), `facts` reads the code at the frames, and `explain` joins
them to one explanation. Start with `explain`.
"""
