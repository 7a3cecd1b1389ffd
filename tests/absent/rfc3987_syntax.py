"""As if it were not installed: jsonschema looks for it, and making its forty grammars is two thirds
of what the start of any client of notebooks takes.  No test is about the syntax of addresses."""

raise ImportError("it is left out of tests")
