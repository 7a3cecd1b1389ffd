"""Thunks are run, and what they do is survived, in a process of their own or in this one.

Start from `executor.Executor`.
"""
