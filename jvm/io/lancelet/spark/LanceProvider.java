package io.lancelet.spark;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * The format {@code lance} for Spark's planner. It is the Python data source of the same name, which does all the
 * work; only the scans that it plans ask for less.
 */
public final class LanceProvider extends PythonDataSourceV2 implements DataSourceRegister {
  static final String NAME = "lance";

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
  static PythonDataSourceV2 freshSource() {
    PythonDataSourceV2 source = new PythonDataSourceV2();
    source.setShortName(NAME);
    return source;
  }

  /** Asks Python for the columns, and takes the field off that carries the facts about the table. */
  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    Map<String, String> asking = new HashMap<>(options.asCaseSensitiveMap());
    asking.put("lance.bridge", "schema");
    StructType found =
        freshSource()
            .getOrCreateDataSourceInPython(NAME, new CaseInsensitiveStringMap(asking), Option.empty())
            .schema();
    StructField[] fields = found.fields();
    facts = Facts.of(fields[fields.length - 1].metadata());
    return new StructType(Arrays.copyOf(fields, fields.length - 1));
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new LanceTable(this, schema, facts);
  }
}
