"""How an agent works on a task: step machines, and the moves they ask the interpreter for. Pure."""
