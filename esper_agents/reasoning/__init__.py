"""Reasoners: playbooks and language models that decide an agent's next action."""
