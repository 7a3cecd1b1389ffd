"""Whose code is in memory: a budget, hibernation, garbage.  Start from `residency.Residency`."""
