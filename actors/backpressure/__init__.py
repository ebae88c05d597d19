"""Backpressure with quality: tasks flow towards shorter queues and better success rates (DEALS)."""
