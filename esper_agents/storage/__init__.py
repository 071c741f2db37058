"""SQL: tables, the engine, migrations at first use, the ledger, leases and artifacts. Imports `domain` and below."""
