package io.lancelet.spark.python;

import java.util.Locale;

/**
 * What Java asks Python. {@code lancelet.spark.sql.protocol} has the same names, each with the module whose function of that
 * name answers; a test compares them.
 */
public enum Ask {
  LIST_NAMESPACES(false),
  LOAD_NAMESPACE(false),
  CREATE_NAMESPACE(true),
  ALTER_NAMESPACE(true),
  DROP_NAMESPACE(true),
  LIST_TABLES(false),
  LOAD_TABLE(false),
  LOAD_CHANGES(false),
  CREATE_TABLE(true),
  STAGE_TABLE(true),
  ABANDON_TABLE(true),
  ALTER_TABLE(true),
  RENAME_TABLE(true),
  DROP_TABLE(true),
  TRUNCATE_TABLE(true),
  DELETE_ROWS(true),
  READ_METADATA(false),
  LIST_PROCEDURES(false),
  LOAD_PROCEDURE(false),
  CALL_PROCEDURE(true),
  CONTINUE_PROCEDURE(true),
  LOAD_FUNCTION(false),
  PLAN_JOIN(false),
  DESCRIBE_SOURCE(false),
  PLAN_SOURCE(false),
  PLAN_SINK(false),
  COMMIT_SINK(true),
  ABORT_SINK(true);

  /** Whether something may have been changed when nobody heard the answer; other questions are just asked again. */
  final boolean changes;

  Ask(boolean changes) {
    this.changes = changes;
  }

  String written() {
    return name().toLowerCase(Locale.ROOT);
  }
}
