package io.lancelet.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancelet.spark.python.Details;
import io.lancelet.spark.python.Python;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.ColumnDefaultValue;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.catalog.constraints.PrimaryKey;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;

/** What is to be made or changed, as Python reads it. */
final class Changes {
  private Changes() {}

  static Map<String, Object> ofTable(TableInfo info, String mode) {
    List<String> partitions = Arrays.stream(info.partitions()).map(Object::toString).toList();
    List<Object> constraints = new ArrayList<>();
    for (Constraint constraint : info.constraints()) {
      constraints.add(constraint(constraint));
    }
    Map<String, Object> details = new HashMap<>();
    details.put(Details.COLUMNS, json(CatalogV2Util.v2ColumnsToStructType(info.columns())));
    details.put(Details.PROPERTIES, properties(info));
    details.put(Details.PARTITIONS, partitions);
    details.put(Details.CONSTRAINTS, constraints);
    details.put(Details.MODE, mode);
    return details;
  }

  /** Data frames that are saved as tables name Spark's default source when nobody named another one. */
  private static Map<String, String> properties(TableInfo info) {
    Map<String, String> found = new HashMap<>(info.properties());
    found.remove(TableCatalog.PROP_PROVIDER, SQLConf.get().defaultDataSourceName());
    return found;
  }

  /** Each change is a list: what kind it is, and what it says. */
  static List<List<Object>> ofColumns(TableChange... changes) {
    return Arrays.stream(changes).map(Changes::ofColumn).toList();
  }

  private static List<Object> ofColumn(TableChange change) {
    if (change instanceof TableChange.SetProperty set) {
      return listed("set_property", set.property(), set.value());
    } else if (change instanceof TableChange.RemoveProperty removed) {
      return listed("remove_property", removed.property());
    } else if (change instanceof TableChange.AddColumn added) {
      return listed(
          "add_column",
          added.fieldNames(),
          json(new StructType().add("type", added.dataType(), added.isNullable())),
          added.comment(),
          position(added.position()),
          standard(added.defaultValue()));
    } else if (change instanceof TableChange.DeleteColumn dropped) {
      return listed("drop_column", dropped.fieldNames(), dropped.ifExists());
    } else if (change instanceof TableChange.RenameColumn renamed) {
      return listed("rename_column", renamed.fieldNames(), renamed.newName());
    } else if (change instanceof TableChange.UpdateColumnType retyped) {
      return listed("retype_column", retyped.fieldNames(), json(new StructType().add("type", retyped.newDataType())));
    } else if (change instanceof TableChange.UpdateColumnNullability column) {
      return listed("set_nullable", column.fieldNames(), column.nullable());
    } else if (change instanceof TableChange.UpdateColumnComment column) {
      return listed("set_comment", column.fieldNames(), column.newComment());
    } else if (change instanceof TableChange.UpdateColumnPosition moved) {
      return listed("move_column", moved.fieldNames(), position(moved.position()));
    } else if (change instanceof TableChange.UpdateColumnDefaultValue column) {
      return listed("set_default", column.fieldNames(), column.newDefaultValue());
    } else if (change instanceof TableChange.AddConstraint added) {
      return listed("add_constraint", constraint(added.constraint()));
    } else if (change instanceof TableChange.DropConstraint dropped) {
      return listed("drop_constraint", dropped.name(), dropped.ifExists());
    }
    if (change instanceof TableChange.ClusterBy) {
      throw new UnsupportedOperationException(
          "a Lance table has no partitions, clusters or buckets; index the columns instead: ALTER TABLE t CREATE INDEX name USING"
              + " btree (column)");
    }
    throw new UnsupportedOperationException("a Lance table cannot be changed in this way: " + change);
  }

  private static List<Object> listed(Object... values) {
    return Arrays.asList(values);
  }

  private static Object position(TableChange.ColumnPosition position) {
    if (position instanceof TableChange.After after) {
      return List.of(after.column());
    }
    return position == null ? null : List.of();
  }

  /** A default: how it is written, and its value as Spark holds it. */
  private static Object standard(ColumnDefaultValue value) {
    if (value == null) {
      return null;
    }
    Object held = value.getValue() == null ? null : value.getValue().value();
    return listed(value.getSql(), held == null ? null : held.toString());
  }

  private static Object constraint(Constraint constraint) {
    if (!(constraint instanceof PrimaryKey key)) {
      throw new UnsupportedOperationException(
          "a Lance table keeps no constraint but a primary key that is not enforced; leave this one out: "
              + constraint.toDDL());
    }
    if (key.enforced()) {
      throw new UnsupportedOperationException(
          "a Lance table does not enforce its primary key; say PRIMARY KEY (...) NOT ENFORCED");
    }
    List<String[]> columns = new ArrayList<>();
    for (NamedReference column : key.columns()) {
      columns.add(column.fieldNames());
    }
    return listed(key.name(), columns);
  }

  private static JsonNode json(StructType columns) {
    try {
      return Python.JSON.readTree(columns.json());
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
