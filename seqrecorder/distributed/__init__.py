"""Writing and reading of datasets with Apache Beam (`.beam`) or Spark (`.spark`), which must be installed."""
