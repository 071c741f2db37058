"""Command-line interface `esper`: one module per command group, each with `register(app)`."""
