"""OpenTelemetry export of sessions: spans built from the ledger on request."""
