"""A program that is stopped, looked at and stepped.  Start from `debugger.Debugger`."""
