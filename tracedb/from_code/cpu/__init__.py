"""Steps on a CPU that was measured: its ops, and the host between them."""
