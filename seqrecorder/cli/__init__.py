"""The command line: arguments to one call, and what is printed."""

__all__ = ["main"]
