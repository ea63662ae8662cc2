package io.lancelet.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancelet.spark.python.Ask;
import io.lancelet.spark.python.Details;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.catalyst.util.QuotingUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/** What {@code CALL catalog.system.name(...)} runs; Python knows what there is, and does it. */
final class LanceProcedure implements UnboundProcedure, BoundProcedure {
  private static final String TABLE = "table";
  private static final String SOURCE = "source";

  private final Asking python;
  private final String catalog;
  private final String name;
  private final String description;
  private final ProcedureParameter[] parameters;
  private final StructType result;
  private final boolean writes;

  LanceProcedure(Asking python, String catalog, String name, JsonNode told) {
    this.python = python;
    this.catalog = catalog;
    this.name = name;
    this.description = told.get(Details.COMMENT).asText();
    this.result = StructType.fromDDL(told.get(Details.RESULT).asText());
    this.writes = told.get(Details.WRITES).asBoolean();
    List<ProcedureParameter> all = new ArrayList<>();
    for (JsonNode parameter : told.get(Details.PARAMETERS)) {
      ProcedureParameter.Builder built =
          ProcedureParameter.in(parameter.get(0).asText(), DataType.fromDDL(parameter.get(1).asText()));
      all.add(parameter.get(2).isNull() ? built.build() : built.defaultValue(parameter.get(2).asText()).build());
    }
    this.parameters = all.toArray(new ProcedureParameter[0]);
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String description() {
    return description;
  }

  @Override
  public BoundProcedure bind(StructType arguments) {
    return this;
  }

  @Override
  public ProcedureParameter[] parameters() {
    return parameters;
  }

  @Override
  public boolean isDeterministic() {
    return false;
  }

  @Override
  public Iterator<Scan> call(InternalRow input) {
    Map<String, Object> arguments = new HashMap<>();
    for (int place = 0; place < parameters.length; place++) {
      if (!input.isNullAt(place)) {
        arguments.put(parameters[place].name(), value(parameters[place].dataType(), input, place));
      }
    }
    Object table = arguments.remove(TABLE);
    if (table == null) {
      throw new IllegalArgumentException("the procedure " + name + " is about a table; its name is null");
    }
    if (arguments.get(SOURCE) instanceof String source) {
      Identifier found = identifier(source);
      List<String> parts = new ArrayList<>(Arrays.asList(found.namespace()));
      parts.add(found.name());
      arguments.put(SOURCE, parts);
    }
    Map<String, ?> details = Map.of(Details.PROCEDURE, name, Details.ARGUMENTS, arguments);
    Identifier about = identifier((String) table);
    JsonNode told = python.of(about).askWithJobs(Ask.CALL_PROCEDURE, details);
    if (writes) {
      readAnew(about);
    }
    return List.<Scan>of(Records.of(result, told.get(Details.RECORDS))).iterator();
  }

  /** What Spark has cached of a table is of an older version now: after its own statements it looks after that itself. */
  private void readAnew(Identifier table) {
    SparkSession session = SparkSession.active();
    if (!session.sharedState().cacheManager().isEmpty()) {
      List<String> parts = new ArrayList<>(List.of(catalog));
      parts.addAll(Arrays.asList(table.namespace()));
      parts.add(table.name());
      session.catalog().refreshTable(parts.stream().map(QuotingUtils::quoteIdentifier).collect(Collectors.joining(".")));
    }
  }

  /** A table by its name, which may begin with that of the catalog, and in the current namespace may be alone. */
  private Identifier identifier(String text) {
    CatalogManager catalogs = SparkSession.active().sessionState().catalogManager();
    List<String> parts;
    try {
      parts =
          new ArrayList<>(
              CollectionConverters.asJava(SparkSession.active().sessionState().sqlParser().parseMultipartIdentifier(text)));
    } catch (Exception unreadable) {
      throw new IllegalArgumentException("the name of a table cannot be read: " + text);
    }
    if (parts.size() > 1 && parts.get(0).equals(catalog)) {
      parts.remove(0);
    } else if (parts.size() == 1 && catalogs.currentCatalog().name().equals(catalog)) {
      parts.addAll(0, Arrays.asList(catalogs.currentNamespace()));
    }
    String last = parts.remove(parts.size() - 1);
    return Identifier.of(parts.toArray(new String[0]), last);
  }

  private static Object value(DataType type, InternalRow input, int place) {
    if (type instanceof StringType) {
      return input.getUTF8String(place).toString();
    }
    if (type instanceof BooleanType) {
      return input.getBoolean(place);
    }
    if (type instanceof IntegerType) {
      return input.getInt(place);
    }
    if (type instanceof DoubleType) {
      return input.getDouble(place);
    }
    if (type instanceof ArrayType) {
      return texts(input.getArray(place));
    }
    if (type instanceof MapType) {
      MapData map = input.getMap(place);
      List<String> keys = texts(map.keyArray());
      List<String> values = texts(map.valueArray());
      List<List<String>> pairs = new ArrayList<>();
      for (int number = 0; number < keys.size(); number++) {
        pairs.add(Arrays.asList(keys.get(number), values.get(number)));
      }
      return pairs;
    }
    return input.getLong(place);
  }

  private static List<String> texts(ArrayData array) {
    List<String> found = new ArrayList<>();
    for (int place = 0; place < array.numElements(); place++) {
      found.add(array.isNullAt(place) ? null : array.getUTF8String(place).toString());
    }
    return found;
  }
}
