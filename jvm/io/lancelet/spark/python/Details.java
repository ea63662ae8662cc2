package io.lancelet.spark.python;

/** Names inside questions and answers; {@code lancelet.spark.sql.protocol} has the same, and a test compares them. */
public final class Details {
  public static final String CATALOG = "catalog";
  public static final String CATALOG_NAME = "catalog_name";
  public static final String NAMESPACE = "namespace";
  public static final String NAME = "name";
  public static final String TARGET_NAMESPACE = "target_namespace";
  public static final String TARGET_NAME = "target_name";
  public static final String CASCADE = "cascade";
  public static final String PURGE = "purge";
  public static final String VERSION = "version";
  public static final String TIMESTAMP = "timestamp";
  public static final String WRITES = "writes";
  public static final String COLUMNS = "columns";
  public static final String PARTITIONS = "partitions";
  public static final String CONSTRAINTS = "constraints";
  public static final String PROPERTIES = "properties";
  public static final String REMOVED = "removed";
  public static final String CHANGES = "changes";
  public static final String MODE = "mode";
  public static final String CASE_SENSITIVE = "case_sensitive";
  public static final String URI = "uri";
  public static final String ROWS = "rows";
  public static final String BYTES = "bytes";
  public static final String OPTIONS = "options";
  public static final String METADATA_COLUMNS = "metadata_columns";
  public static final String PRIMARY_KEY = "primary_key";
  public static final String READ_ONLY = "read_only";
  public static final String DECLARED = "declared";
  public static final String CONDITIONS = "conditions";
  public static final String PREDICATE = "predicate";
  public static final String PROCEDURE = "procedure";
  public static final String PARAMETERS = "parameters";
  public static final String ARGUMENTS = "arguments";
  public static final String RESULT = "result";
  public static final String COMMENT = "comment";
  public static final String RECORDS = "records";
  public static final String JOB = "job";
  public static final String COMMAND = "command";
  public static final String QUERY = "query";
  public static final String TASKS = "tasks";
  public static final String PYTHON_VERSION = "python_version";
  public static final String RESULTS = "results";
  public static final String PLACE = "place";
  public static final String INDEXED = "indexed";
  public static final String OVERWRITES = "overwrites";
  public static final String MESSAGES = "messages";
  public static final String WRITER = "writer";

  private Details() {}
}
