"""What agents keep between sessions: notes in SQL, and the three Markdown documents that show them."""
