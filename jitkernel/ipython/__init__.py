"""Sessions inside a Python notebook: `%load_ext jitkernel` in IPython, whatever the client.

The same magics and displays as the kernel's, on a session of the notebook.  Start from
`extension.load`.
"""
