"""The Jupyter kernel: messages, magics, completion, displays, and the command line around them.

Not the session itself, which knows nothing of Jupyter.  Start from `kernel.JITKernel`; the
process starts in `__main__`.
"""
