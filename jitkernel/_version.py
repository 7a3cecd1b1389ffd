"""The version, in one place: the build, the command line and the kernel read it from here."""

__version__ = "0.1.0"
