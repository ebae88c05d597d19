"""Memory: what was learned, found again by similarity.

Takes vectors and never a model. Here live the trajectory memory with the paper's score and eviction, and the
indexes under it (FAISS, and an exact one that serves as oracle and fallback). Nothing here knows of agents.
"""
