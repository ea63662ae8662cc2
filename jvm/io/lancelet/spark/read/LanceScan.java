package io.lancelet.spark.read;

import java.util.Arrays;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's own scan of a Python source, which also knows how large the table is. */
final class LanceScan extends PythonScan implements SupportsReportStatistics {
  private final long rows;
  private final long bytes;
  private final String shown;
  private final StructType columns;
  private final CaseInsensitiveStringMap options;
  private final PythonDataSourceV2 source;
  private final int limit;
  private final boolean columnar = LanceBatch.tasksHaveJar();

  /** Python plans once for a {@code source}: Spark asks for the batch of a scan several times. */
  LanceScan(
      PythonDataSourceV2 source,
      StructType columns,
      CaseInsensitiveStringMap options,
      long rows,
      long bytes,
      List<Predicate> pushed,
      int limit) {
    super(source, LanceProvider.NAME, columns, options, new Filter[0]);
    this.source = source;
    this.columns = columns;
    this.options = options;
    this.rows = rows;
    this.bytes = bytes;
    this.limit = limit;
    this.shown =
        "lance columns=" + Arrays.toString(columns.fieldNames()) + " pushed=" + pushed + " limit=" + limit;
  }

  @Override
  public Batch toBatch() {
    return columnar ? new LanceBatch(source, columns, options, limit) : super.toBatch();
  }

  /** Streams are read by Spark's own readers, which give rows: so the readers are asked. */
  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return columnar ? ColumnarSupportMode.PARTITION_DEFINED : ColumnarSupportMode.UNSUPPORTED;
  }

  @Override
  public String description() {
    return shown;
  }

  @Override
  public Statistics estimateStatistics() {
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return bytes < 0 ? OptionalLong.empty() : OptionalLong.of(Math.max(1, bytes));
      }

      @Override
      public OptionalLong numRows() {
        return rows < 0 ? OptionalLong.empty() : OptionalLong.of(rows);
      }
    };
  }
}
