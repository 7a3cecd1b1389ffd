"""A session in a file, and how it comes back.  Start from `keeping.SessionFile`."""
