"""Agent memory: notes in SQL, and the three Markdown documents that render them."""
