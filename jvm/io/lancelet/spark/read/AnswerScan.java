package io.lancelet.spark.read;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Aggregates of the whole table, as metadata and indices have them: one row. */
final class AnswerScan implements LocalScan {
  private final Object[] values;
  private final DataType[] types;
  private final long rows;

  AnswerScan(Object[] values, DataType[] types, long rows) {
    this.values = values;
    this.types = types;
    this.rows = rows;
  }

  @Override
  public InternalRow[] rows() {
    return new InternalRow[] {new GenericInternalRow(values)};
  }

  @Override
  public StructType readSchema() {
    StructType schema = new StructType();
    for (int i = 0; i < values.length; i++) {
      schema = schema.add("answer_" + i, types[i], true);
    }
    return schema;
  }

  @Override
  public String description() {
    return "lance rows=" + rows + " answers=" + Arrays.toString(values);
  }
}
