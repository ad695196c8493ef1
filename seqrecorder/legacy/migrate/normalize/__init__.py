"""Scripts brought into the one form that the rewriting knows."""
