"""Later changes of certificates and keys, each appended to the log as a signed notice."""
