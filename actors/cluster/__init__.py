"""What runs a plan: in this process or on Ray, from the same value, behind the same interface."""
