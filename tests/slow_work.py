"""Work for other processes, which import this module by its name."""

import os
import time

import seqrecorder as sr


class UnpicklableError(Exception):
    def __init__(self, one, other):
        super().__init__(f"{one} and {other}")


def where(item):
    """Return where an item was worked on."""
    return item, os.getpid()


def fail_elsewhere(item):
    """Do something bad in every process but the first."""
    kind, first = item
    if os.getpid() != first:
        if kind == "dies":
            os._exit(7)
        if kind == "sleeps":
            time.sleep(600)
        raise sr.OptionError("here") if kind == "ours" else UnpicklableError(1, 2)
    return kind
