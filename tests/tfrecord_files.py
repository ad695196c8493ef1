"""TFRecord frames by their definition, byte by byte, so that tests of files need no TensorFlow."""

import functools
import gzip


def _octet_table():
    table = list(range(256))
    for _ in range(8):
        table = [register >> 1 ^ (0x82F63B78 if register & 1 else 0) for register in table]
    return table


_TABLE = _octet_table()


def crc32c(data):
    """Return the CRC-32C of bytes, as the package google-crc32c does."""
    register = 0xFFFFFFFF
    for octet in data:
        register = register >> 8 ^ _TABLE[register & 0xFF ^ octet]
    return register ^ 0xFFFFFFFF


def masked_crc32c(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF).to_bytes(4, "little")


@functools.cache
def frame(record):
    length = len(record).to_bytes(8, "little")
    return length + masked_crc32c(length) + record + masked_crc32c(record)


def framed(records):
    """Return records with their frames, as TensorFlow writes them."""
    return b"".join(map(frame, records))


def written(path, records, compression=None):
    """Write a file of records, and return its path."""
    data = framed(records)
    path.write_bytes(gzip.compress(data, 1, mtime=0) if compression else data)
    return path
