"""Search of certificates by filter, words and metric."""
