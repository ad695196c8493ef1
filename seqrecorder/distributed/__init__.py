"""Writing and reading of datasets with Apache Beam (`.beam`) or Spark (`.spark`), each of which must be installed."""
