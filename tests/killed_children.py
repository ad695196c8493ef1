"""What programs of tests begin with whose children are killed at fault points."""

FORKING = """
import os, random, shutil, signal, sys
from pathlib import Path
import seqrecorder as sr  # without TensorFlow, whose memory each child would copy
from seqrecorder.storage.files import on_fault_point

os.fsync = os.fstat  # nothing here cuts the power
root = Path(sys.argv[1])

@sr.record
class Word:
    key: str = sr.context(str, key=True)
    ids: list = sr.feature_list("int64")

def start(action, victim=0):
    '''Begin an action in a child, which is killed at one of its fault points; else how many they are is written.'''
    child = os.fork()
    if not child:
        code, seen = 1, []
        def hook(name, path):
            seen.append(name)
            if len(seen) == victim:
                os.kill(os.getpid(), signal.SIGKILL)
        try:
            with on_fault_point(hook):
                action()
            code = 0
            if not victim:
                (root / "points").write_text(str(len(seen)))
        finally:
            os._exit(code)
    return child

def end(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
