package io.lancelet.spark.read;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancelet.spark.python.Python;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/** COUNT with conditions, MIN and MAX, as far as indices know them without a look at the rows. */
final class Aggregates {
  private Aggregates() {}

  /** The values, or null. Python is asked only where all columns have an index. */
  static AnswerScan answered(
      AggregateFunc[] functions, List<Object> conditions, StructType own, Facts facts, Supplier<Map<String, String>> handed) {
    List<Object> asked = new ArrayList<>();
    List<DataType> types = new ArrayList<>();
    for (AggregateFunc function : functions) {
      Expression column = function instanceof Min min ? min.column() : function instanceof Max max ? max.column() : null;
      if (function instanceof CountStar) {
        asked.add(List.of("count"));
        types.add(DataTypes.LongType);
      } else if (column instanceof NamedReference reference && isWhole(reference, own, facts)) {
        asked.add(List.of(function instanceof Min ? "min" : "max", reference.fieldNames()[0]));
        types.add(own.apply(reference.fieldNames()[0]).dataType());
      } else {
        return null;
      }
    }
    if (!conditions.isEmpty() && !Conditions.areIndexed(conditions, facts)) {
      return null;
    }
    Map<String, String> options = handed.get();
    options.put(Options.AGGREGATES, Options.json(asked));
    Object[] values = values(LanceProvider.estimated(options).getString("answers"), types);
    return values == null ? null : new AnswerScan(values, types.toArray(new DataType[0]), facts.rows());
  }

  private static boolean isWhole(NamedReference reference, StructType own, Facts facts) {
    String[] path = reference.fieldNames();
    if (path.length != 1 || !facts.indexed().contains(path[0]) || !Conditions.isComparable(reference, own)) {
      return false;
    }
    DataType type = own.apply(path[0]).dataType();
    return type instanceof ByteType
        || type instanceof ShortType
        || type instanceof IntegerType
        || type instanceof LongType
        || type instanceof DateType
        || type instanceof TimestampType
        || type instanceof TimestampNTZType;
  }

  private static Object[] values(String text, List<DataType> types) {
    try {
      JsonNode told = Python.JSON.readTree(text);
      if (told.isNull()) {
        return null;
      }
      Object[] values = new Object[types.size()];
      for (int at = 0; at < values.length; at++) {
        values[at] = told.get(at).isNull() ? null : value(types.get(at), told.get(at).asLong());
      }
      return values;
    } catch (IOException impossible) {
      throw new UncheckedIOException(impossible);
    }
  }

  /** A number as Spark holds it. */
  static Object value(DataType type, long number) {
    if (type instanceof ByteType) {
      return (byte) number;
    }
    if (type instanceof ShortType) {
      return (short) number;
    }
    return type instanceof IntegerType || type instanceof DateType ? (Object) (int) number : (Object) number;
  }
}
