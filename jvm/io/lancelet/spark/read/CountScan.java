package io.lancelet.spark.read;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The number of rows as the table's metadata has it, once for each time that it is asked for. */
final class CountScan implements LocalScan {
  private final long rows;
  private final int times;

  CountScan(long rows, int times) {
    this.rows = rows;
    this.times = times;
  }

  @Override
  public InternalRow[] rows() {
    Object[] values = new Object[times];
    Arrays.fill(values, rows);
    return new InternalRow[] {new GenericInternalRow(values)};
  }

  @Override
  public StructType readSchema() {
    StructType schema = new StructType();
    for (int i = 0; i < times; i++) {
      schema = schema.add("count(*)" + (i == 0 ? "" : "_" + i), DataTypes.LongType, false);
    }
    return schema;
  }

  @Override
  public String description() {
    return "lance rows=" + rows;
  }
}
