"""Certificates: policy, the canonical record, its views, and checking them; knows no agents, tools or sessions."""
