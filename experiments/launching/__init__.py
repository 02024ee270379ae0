"""Many training runs as processes, and what becomes of them."""
