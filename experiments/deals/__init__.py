"""DEALS (arXiv 2609.33768): what it claims, how to run it here, what came out. See README.md beside this file."""
