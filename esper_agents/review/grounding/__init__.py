"""Grounding: find what the words of a question refer to in code, and say what the code does with it.

`words` compares words with identifiers, `vocabulary` finds the names that a question means, `statements` reads the
statements of functions, `ranking` orders them by a question, `operations` says what common operations do, `following`
follows a parameter from its default to its uses, and `answers` puts the facts in order.
"""
