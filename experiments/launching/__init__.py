"""Many training runs as processes: starting, stopping, packing and summaries."""
