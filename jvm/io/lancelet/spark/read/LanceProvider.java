package io.lancelet.spark.read;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The format {@code lance} for Spark's planner. It is the Python data source of the same name, which does all the
 * work; only the scans that it plans ask for less.
 */
public final class LanceProvider extends PythonDataSourceV2 implements DataSourceRegister {
  public static final String NAME = "lance";
  private static final String PATH = "path";
  private static final String OPTION = "option.";

  private Facts facts = Facts.NONE;

  public LanceProvider() {
    super.setShortName(NAME);
  }

  /** Spark names the Python sources that it finds, each once; this one has its name already. */
  @Override
  public void setShortName(String name) {}

  @Override
  public String shortName() {
    return NAME;
  }

  /** A Python source with the same name and nothing remembered. */
  public static PythonDataSourceV2 freshSource() {
    PythonDataSourceV2 source = new PythonSource();
    source.setShortName(NAME);
    return source;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    Map<String, String> given = options.asCaseSensitiveMap();
    return isNamed(given) ? asked("schema", namedOptions(given), null) : asked("schema", given, null);
  }

  /**
   * The table for a read, a write, or a name in Spark's catalog. Spark says not which: for a name, its properties have the
   * provider, and Spark (4.3) hands them over as they came when the name is being made.
   */
  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    if (partitioning.length > 0) {
      throw new IllegalArgumentException(
          "a Lance table has no partitions, clusters or buckets, but "
              + Arrays.toString(partitioning)
              + " was asked for; leave it out, and index the columns instead: LanceTable.forPath(spark,"
              + " path).createIndex(column)");
    }
    if (!isNamed(properties)) {
      return new LanceTable(this, schema, facts, Map.of(), Map.of());
    }
    Map<String, String> options = namedOptions(properties);
    boolean isNew = properties instanceof CaseInsensitiveStringMap;
    if (isNew && !options.containsKey(PATH)) {
      // Spark gives it a folder of its own.
      return new LanceTable(this, schema, Facts.NONE, options, Map.of());
    }
    StructType columns = asked(isNew ? "create" : "named", options, schema);
    return new LanceTable(this, columns, facts, options, shownProperties(properties));
  }

  /** Asks Python for the columns, and takes the field off that carries the facts about the table. */
  private StructType asked(String what, Map<String, String> options, StructType given) {
    Map<String, String> asking = new HashMap<>(options);
    asking.put("lance.bridge", what);
    if (given != null) {
      asking.put("lance.requested", given.json());
    }
    asking.put("lance.caseSensitive", Boolean.toString(SQLConf.get().caseSensitiveAnalysis()));
    StructField[] fields = Planner.columns(asking).fields();
    facts = Facts.of(fields[fields.length - 1].metadata());
    return new StructType(Arrays.copyOf(fields, fields.length - 1));
  }

  /** What is known about a scan with these options without reading it. */
  static Metadata estimated(Map<String, String> options) {
    Map<String, String> asking = new HashMap<>(options);
    asking.put("lance.bridge", "estimate");
    StructField[] fields = Planner.columns(asking).fields();
    return fields[fields.length - 1].metadata();
  }

  /** The columns of the table itself, for a read whose columns somebody else gave; those must fit. */
  StructType ownColumns(StructType given, Map<String, String> options) {
    return asked("schema", options, given);
  }

  /** What the last look at a table told. */
  Facts facts() {
    return facts;
  }

  /** What DESCRIBE and SHOW tell; Spark does not say which tables are its own, but those have no location. */
  private static Map<String, String> shownProperties(Map<String, String> properties) {
    Map<String, String> shown = new HashMap<>(properties);
    shown.remove(PATH);
    if (shown.containsKey("location")) {
      shown.put("external", "true");
    }
    return shown;
  }

  private static boolean isNamed(Map<String, String> properties) {
    return properties.containsKey("provider");
  }

  /** What the table's properties in Spark's catalog mean for reads and writes: where it is, and its OPTIONS. */
  private static Map<String, String> namedOptions(Map<String, String> properties) {
    // Among its OPTIONS there may be some for reads and some for writes.
    Map<String, String> options = new HashMap<>(Map.of("lance.named", "true"));
    for (Map.Entry<String, String> entry : properties.entrySet()) {
      if (entry.getKey().toLowerCase(Locale.ROOT).startsWith(OPTION)) {
        options.put(entry.getKey().substring(OPTION.length()), entry.getValue());
      }
    }
    String path = properties.getOrDefault(PATH, properties.get("location"));
    if (path != null) {
      options.put(PATH, path.startsWith("file:/") && !path.startsWith("file://") ? path.substring(5) : path);
    }
    return options;
  }
}
