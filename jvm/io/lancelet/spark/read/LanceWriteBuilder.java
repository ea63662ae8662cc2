package io.lancelet.spark.read;

import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriteBuilder;

/** Spark's own write to a Python source, which tells mistakes in a sentence, and is planned where reads are. */
public class LanceWriteBuilder extends PythonWriteBuilder {
  private final LogicalWriteInfo info;
  private boolean overwrites = false;

  public LanceWriteBuilder(LogicalWriteInfo info) {
    super(LanceProvider.freshSource(), LanceProvider.NAME, info);
    this.info = info;
  }

  @Override
  public WriteBuilder truncate() {
    overwrites = true;
    return super.truncate();
  }

  @Override
  public Write build() {
    return new PlainWrite(super.build(), info, overwrites);
  }
}
