"""What a release costs, for every set of attributes; limits on it; and the ledger that keeps count."""
