"""What decides an agent's next move. Writes nothing and runs no tool. Imports `agents`, `tools` and below."""
