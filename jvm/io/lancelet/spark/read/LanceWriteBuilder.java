package io.lancelet.spark.read;

import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriteBuilder;

/** Spark's own write to a Python source, which tells mistakes in a sentence. */
public class LanceWriteBuilder extends PythonWriteBuilder {
  public LanceWriteBuilder(LogicalWriteInfo info) {
    super(LanceProvider.freshSource(), LanceProvider.NAME, info);
  }

  @Override
  public Write build() {
    return new PlainWrite(super.build());
  }
}
