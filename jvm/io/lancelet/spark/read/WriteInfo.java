package io.lancelet.spark.read;

import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What Spark tells about a write, with other options. */
public record WriteInfo(LogicalWriteInfo info, CaseInsensitiveStringMap options) implements LogicalWriteInfo {
  @Override
  public String queryId() {
    return info.queryId();
  }

  @Override
  public StructType schema() {
    return info.schema();
  }
}
