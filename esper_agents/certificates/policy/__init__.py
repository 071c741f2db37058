"""Policy: question types, policy rules and the ceiling of a verdict."""
