"""The verbs: each module does one thing from beginning to end, in the order of its text. Decisions come from ``policy``."""
