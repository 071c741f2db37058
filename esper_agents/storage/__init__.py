"""SQL storage: tables, engine, migrations, ledger, leases and artifacts."""
