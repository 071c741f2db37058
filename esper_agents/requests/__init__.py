"""Requests: what a user's words ask for, found without a model.

Start with `parsing.parse_request`. `vocabulary` matches the words of `prompts/request_words.toml`, `quantities` reads
numbers and constraints, `project_names` finds named files and definitions, and `measurement_options` reads targets and
inputs.
"""
