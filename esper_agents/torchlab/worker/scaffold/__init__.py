"""Job of `esper torch scaffold`: search for arguments with which a function or module runs."""
