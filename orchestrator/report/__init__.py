"""Results to text, JSON and CSV. Returns strings; writes nothing."""
