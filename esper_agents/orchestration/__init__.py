"""The graph, where(ledger), the turn loop, handoffs, permissions and certify. Imports `reasoning` and below."""
