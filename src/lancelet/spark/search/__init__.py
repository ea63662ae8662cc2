"""Vector search on Spark: as a job over the parts of a table, for each row of a data frame, and as a function of SQL."""
