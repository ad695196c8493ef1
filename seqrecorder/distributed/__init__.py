"""One dataset written, and read, by Beam or Spark: `seqrecorder.distributed.beam` and `.spark`, each with its extra."""
