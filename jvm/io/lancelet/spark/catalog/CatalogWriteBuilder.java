package io.lancelet.spark.catalog;

import io.lancelet.spark.read.LanceProvider;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriteBuilder;

/** A write of rows; without partitions, to overwrite those of the new rows is to overwrite all. */
final class CatalogWriteBuilder extends PythonWriteBuilder implements SupportsDynamicOverwrite {
  CatalogWriteBuilder(LogicalWriteInfo info) {
    super(LanceProvider.freshSource(), LanceProvider.NAME, info);
  }

  @Override
  public WriteBuilder overwriteDynamicPartitions() {
    return truncate();
  }
}
