"""The agents, what they decide, and the cluster they live in.

The decision core (`task`, `messages`, `routing`, `mechanism`, `backpressure`, `steps`, `agent.state`) is
pure: events in, commands out, time and chance are arguments. `agent.actor` carries commands out; `cluster`
starts a plan in this process or on Ray.
"""
