"""Fact queries, one per module; the base class is `esper_agents.review.fact_query.FactQuery`."""
