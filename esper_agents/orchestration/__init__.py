"""Session execution: graph, `where(ledger)`, turn loop, handoffs, permissions and certify."""
