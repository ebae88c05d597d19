"""The vectorised routing core: one kernel over (types x edges), arrays in, arrays out. Pure."""
