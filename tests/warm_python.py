"""Programs in processes of their own, which do not pay for the imports of TensorFlow and of this package.

One process has imported them and has started none of its threads; each program runs in a child of that process.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_SERVER = r"""
import json, os, runpy, signal, sys, time, types, warnings
import keras, matplotlib.pyplot, tensorflow
import seqrecorder

for name in dir(seqrecorder):  # each is imported when it is asked for
    getattr(seqrecorder, name)

os.fsync = os.fstat  # nothing here cuts the power
LIBRARIES = [path for path in sys.path if path and path not in os.environ.get("PYTHONPATH", "").split(os.pathsep)]

def become(files, arguments, environment, directory):
    os.chdir(directory)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.dup2(os.open(files + name, os.O_RDWR), number)
    sys.stdin = open(0, closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    warnings.resetwarnings()
    if arguments[0] == "-W":
        warnings.simplefilter(arguments[1])
        arguments = arguments[2:]
    warnings.filterwarnings("ignore", module="gast")  # on Python 3.13, the syntax trees of TensorFlow's AutoGraph
    kind = arguments[0] if arguments[0] in ("-c", "-m") else "script"
    what, *sys.argv[1:] = arguments[kind != "script":]
    sys.argv[0] = "-c" if kind == "-c" else what
    first = {"-c": "", "-m": directory}.get(kind, os.path.dirname(os.path.abspath(what)))
    sys.path[:] = [first, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)), *LIBRARIES]
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    elif kind == "script":
        runpy.run_path(what, run_name="__main__")
    else:
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), main.__dict__)

def wait(child, seconds):
    end = seconds and time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG if end else 0)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.005)

for line in sys.stdin:
    *program, seconds = json.loads(line)
    child = os.fork()
    if not child:
        become(*program)
        sys.exit()
    print(json.dumps(wait(child, seconds)), flush=True)
"""


class WarmPython:
    """Runs programs as `subprocess.run` does those of this interpreter, one at a time."""

    def __init__(self):
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "MPLBACKEND": "agg"}
        self._server = subprocess.Popen(
            [sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(
        self,
        command,
        *,
        input="",  # noqa: A002 - the name of subprocess.run
        env=None,
        cwd=None,
        timeout=None,
        text=False,
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    ):
        """Return what `subprocess.run` returns: the command begins with this interpreter, and all is captured."""
        assert command[0] == sys.executable
        assert capture_output
        assert stdin == subprocess.DEVNULL
        with tempfile.TemporaryDirectory() as files:
            Path(files, "stdin").write_text(input)
            Path(files, "stdout").touch()
            Path(files, "stderr").touch()
            program = [f"{files}/", list(map(str, command[1:])), dict(env or os.environ), str(cwd or Path.cwd())]
            print(json.dumps([*program, timeout]), file=self._server.stdin, flush=True)
            code = json.loads(self._server.stdout.readline())
            out, err = (Path(files, name).read_bytes() for name in ("stdout", "stderr"))
        if code is None:
            raise subprocess.TimeoutExpired(command, timeout, out, err)
        done = subprocess.CompletedProcess(command, code, *((out.decode(), err.decode()) if text else (out, err)))
        if check:
            done.check_returncode()
        return done

    def close(self):
        """End the process."""
        self._server.stdin.close()
        self._server.stdout.close()
        self._server.wait()
