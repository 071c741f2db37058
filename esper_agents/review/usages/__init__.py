"""Questions about one API or option: a knowledge base whose cases conditions over the code decide.

One file in `entries/` is one API or option: how people name it, the calls it is about, and its cases. `entries` reads
the files, `sites` finds the places, `conditions` holds the registered conditions, and `answers` decides each place.
"""
