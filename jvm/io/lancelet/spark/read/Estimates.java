package io.lancelet.spark.read;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;

/**
 * How large a scan is, for the planner: what the table's metadata tell, for the columns that are read. Where conditions are on
 * columns that have an index, Python asks it; others change nothing, since nobody knows how many rows they leave.
 */
final class Estimates implements Statistics {
  private static final String VECTOR = "fixed_size_list:";
  private static final int LEAST_WIDTH = 8;

  private final long rows;
  private final long bytes;
  private final Metadata told;
  private final StructType columns;

  Estimates(
      Facts facts, StructType columns, StructType wanted, List<Object> conditions, int limit, Map<String, String> handed) {
    this.columns = columns;
    boolean asks = facts.rows() >= 0 && !conditions.isEmpty() && Conditions.areIndexed(conditions, facts);
    boolean asksColumns = facts.rows() >= 0 && SQLConf.get().cboEnabled() && !facts.indexed().isEmpty();
    told = asks || asksColumns ? LanceProvider.estimated(handed) : null;
    long most = asks ? told.getLong("rows") : facts.rows();
    long width = facts.rows() > 0 ? bytes(facts, columns, wanted) / facts.rows() : LEAST_WIDTH;
    long share = facts.bytes() * wanted.size() / Math.max(1, columns.size());
    long whole = facts.bytes() < 0 ? -1 : facts.rows() < 0 ? share : most * width;
    boolean isLimited = limit >= 0 && most > limit;
    rows = conditions.isEmpty() || asks ? (isLimited ? limit : most) : -1;
    bytes = isLimited && whole >= 0 ? Math.min(whole, (long) limit * width) : whole;
  }

  /** Columns whose width is known have it; the others share what is left of the files. */
  private static long bytes(Facts facts, StructType columns, StructType wanted) {
    long fixed = 0;
    int others = 0;
    for (StructField column : columns.fields()) {
      long width = width(column);
      fixed += Math.max(width, 0);
      others += width < 0 ? 1 : 0;
    }
    long left = others == 0 ? 0 : Math.max(facts.bytes() - facts.rows() * fixed, 0) / others;
    long each = Math.max(left, facts.rows() * LEAST_WIDTH);
    long total = facts.rows() * LEAST_WIDTH;
    for (StructField column : wanted.fields()) {
      long width = width(column);
      total += width < 0 ? each : facts.rows() * width;
    }
    return total;
  }

  /** Bytes of a value; -1 when values have different lengths. */
  private static long width(StructField column) {
    DataType type = column.dataType();
    String kept = column.metadata().contains("lance.type") ? column.metadata().getString("lance.type") : "";
    if (type instanceof ArrayType array && kept.startsWith(VECTOR)) {
      String[] parts = kept.split(":");
      return Long.parseLong(parts[parts.length - 1]) * array.elementType().defaultSize();
    }
    boolean varies =
        type instanceof ArrayType
            || type instanceof MapType
            || type instanceof StructType
            || type instanceof StringType
            || type instanceof BinaryType;
    return varies ? -1 : type.defaultSize();
  }

  @Override
  public OptionalLong sizeInBytes() {
    return bytes < 0 ? OptionalLong.empty() : OptionalLong.of(Math.max(1, bytes));
  }

  @Override
  public OptionalLong numRows() {
    return rows < 0 ? OptionalLong.empty() : OptionalLong.of(rows);
  }

  /** For the cost-based optimizer. */
  @Override
  public Map<NamedReference, ColumnStatistics> columnStats() {
    Map<NamedReference, ColumnStatistics> found = new HashMap<>();
    if (told != null) {
      Metadata known = told.getMetadata("columns");
      for (StructField column : columns.fields()) {
        if (known.contains(column.name())) {
          NamedReference name = Expressions.column("`" + column.name().replace("`", "``") + "`");
          found.put(name, of(known.getMetadata(column.name()), column.dataType()));
        }
      }
    }
    return found;
  }

  private static ColumnStatistics of(Metadata column, DataType type) {
    return new ColumnStatistics() {
      @Override
      public Optional<Object> min() {
        return end("min");
      }

      @Override
      public Optional<Object> max() {
        return end("max");
      }

      @Override
      public OptionalLong nullCount() {
        return OptionalLong.of(column.getLong("nulls"));
      }

      /** Spark (4.3) has no numbers for times without a zone, and fails where it is told their ends. */
      private Optional<Object> end(String key) {
        boolean isKnown = column.contains(key) && !(type instanceof TimestampNTZType);
        return isKnown ? Optional.of(Aggregates.value(type, column.getLong(key))) : Optional.empty();
      }
    };
  }
}
