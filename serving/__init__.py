"""Models behind one interface.

A `Backend` turns a `Request` into a `Completion`; an `Encoder` turns texts into unit vectors. Here live the
backends (a vLLM engine, any OpenAI-compatible server, a seeded simulation), the prompt fitting they share,
the model cache, and the `Replica` that owns one backend. Nothing here knows of agents or of memory.
"""
