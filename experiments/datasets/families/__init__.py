"""Generated problem families: seeded, in our own words, each answer computed by the program.

They need no file and no licence, and they ask for the same kinds of thinking as BIG-Bench Hard (Suzgun et al.
2022): logic, counting, arithmetic, dates, order, and following a state through many steps.
"""
