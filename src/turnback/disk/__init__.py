"""Files of the state folder: locks, append-only lines, private files. Knows nothing of what they hold."""
