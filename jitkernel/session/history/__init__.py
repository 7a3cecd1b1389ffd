"""What was done, taken back and done again.  Start from `undo.UndoHistory`."""
