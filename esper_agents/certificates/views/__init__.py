"""Views of a certificate: Markdown, HTML, plots and the explanation of its verdict."""
