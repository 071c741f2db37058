"""What the router knows and reads: words, phrases, the lexicon, the parts of a request, and the evidence in it."""
