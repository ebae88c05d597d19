"""One agent: its queues, its state machine, and the shell that carries its commands out."""
