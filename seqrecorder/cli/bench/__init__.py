"""`seqrecorder bench`: what writing and reading cost here, beside what a user would pick instead."""
