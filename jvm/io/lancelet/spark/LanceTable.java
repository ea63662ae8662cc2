package io.lancelet.spark;

import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table whose scans take what Spark pushes down; writes and streams are Spark's own. */
final class LanceTable extends PythonTable {
  private final StructType columns;
  private final Facts facts;

  LanceTable(LanceProvider provider, StructType columns, Facts facts) {
    super(provider, LanceProvider.NAME, columns);
    this.columns = columns;
    this.facts = facts;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new LanceScanBuilder(columns, options, facts);
  }
}
