"""The paper's studies and ours: many arms over many seeds, paired by seed, in one table each."""
