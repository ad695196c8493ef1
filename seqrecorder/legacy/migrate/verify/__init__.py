"""Whether a rewritten pipeline gives what its queues gave: both are run and compared."""
