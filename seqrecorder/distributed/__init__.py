"""Write and read datasets with Apache Beam (`.beam`) or Spark (`.spark`); each needs its extra."""
