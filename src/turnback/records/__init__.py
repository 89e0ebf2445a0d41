"""The append-only log, which is the truth, and the state folded from it (DESIGN part 5)."""
