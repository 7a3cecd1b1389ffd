"""Tests of the executor, which its other processes import too."""
