package io.lancelet.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Rows that Python told: lists of values in the order of the columns, times in microseconds. */
record Records(StructType readSchema, InternalRow[] rows) implements LocalScan {
  static Records of(StructType columns, JsonNode told) {
    List<InternalRow> rows = new ArrayList<>();
    told.forEach(row -> rows.add(row(columns, row)));
    return new Records(columns, rows.toArray(new InternalRow[0]));
  }

  @Override
  public String description() {
    return "what Python told: " + rows.length + " rows";
  }

  private static InternalRow row(StructType columns, JsonNode told) {
    Object[] values = new Object[columns.length()];
    StructField[] fields = columns.fields();
    for (int column = 0; column < values.length; column++) {
      values[column] = value(fields[column].dataType(), told.get(column));
    }
    return new GenericInternalRow(values);
  }

  private static Object value(DataType type, JsonNode told) {
    if (told == null || told.isNull()) {
      return null;
    }
    if (type instanceof StringType) {
      return UTF8String.fromString(told.asText());
    }
    if (type instanceof BooleanType) {
      return told.asBoolean();
    }
    if (type instanceof IntegerType) {
      return told.asInt();
    }
    if (type instanceof DoubleType) {
      return told.asDouble();
    }
    if (type instanceof StructType struct) {
      return row(struct, told);
    }
    if (type instanceof ArrayType array) {
      List<Object> values = new ArrayList<>();
      told.forEach(each -> values.add(value(array.elementType(), each)));
      return new GenericArrayData(values.toArray());
    }
    if (type instanceof MapType map) {
      List<Object> keys = new ArrayList<>();
      List<Object> values = new ArrayList<>();
      told.fields()
          .forEachRemaining(
              entry -> {
                keys.add(UTF8String.fromString(entry.getKey()));
                values.add(value(map.valueType(), entry.getValue()));
              });
      return new ArrayBasedMapData(new GenericArrayData(keys.toArray()), new GenericArrayData(values.toArray()));
    }
    return told.asLong();
  }
}
