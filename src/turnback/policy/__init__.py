"""Decisions: values in, values and reasons out. No module here does input or output of any kind."""
