# It ships no types, and loads its modules lazily, where no checker can follow: everything in it is Any.
from typing import Any

def __getattr__(name: str) -> Any: ...
