"""What a session did, in the terms that observability tools know: made from its ledger, when somebody asks."""
