"""Writing and reading datasets with Apache Beam (`.beam`) or Spark (`.spark`), which must be installed separately."""
