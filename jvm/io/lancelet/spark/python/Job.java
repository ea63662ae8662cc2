package io.lancelet.spark.python;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.analysis.TableOutputResolver;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.python.UserDefinedPythonFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A Spark job for the process that answers, which has no session of its own: tasks that are a function of Python's, or a
 * query whose rows become a table, or are its results.
 */
public final class Job {
  private static final StructType RESULT = new StructType().add("result", DataTypes.BinaryType);

  /** Spark's number for functions from batches of rows to batches of rows. */
  private static final int MAPS_ARROW = 207;

  private Job() {}

  /** What the tasks returned, in their order; of a query that is not written, the texts that are its rows. */
  static List<String> run(JsonNode told) {
    SparkSession session = SparkSession.active();
    if (told.has(Details.QUERY) && !told.has(Details.URI)) {
      List<String> texts = new ArrayList<>();
      session.sql(told.get(Details.QUERY).asText()).collectAsList().forEach(row -> texts.add(row.getString(0)));
      return texts;
    }
    if (told.has(Details.QUERY)) {
      Map<String, String> options = new HashMap<>();
      told.get(Details.OPTIONS).fields().forEachRemaining(entry -> options.put(entry.getKey(), entry.getValue().asText()));
      Dataset<Row> rows = session.sql(told.get(Details.QUERY).asText());
      if (told.has(Details.COLUMNS)) {
        StructType columns = (StructType) DataType.fromJson(told.get(Details.COLUMNS).toString());
        rows = assigned(session, rows, told.get(Details.NAME).asText(), columns);
      }
      rows.write().format("lance").mode("append").options(options).save(told.get(Details.URI).asText());
      return List.of();
    }
    SimplePythonFunction function = function(told);
    Column column =
        declared(function).apply(CollectionConverters.asScala(List.of(functions.col("id"))).toSeq());
    Dataset<Row> numbers =
        session.range(0, told.get(Details.TASKS).asLong(), 1, told.get(Details.PARTITIONS).asInt()).toDF();
    List<String> results = new ArrayList<>();
    for (Row row : (Row[]) numbers.mapInArrow(column, false, null).collect()) {
      results.add(Base64.getEncoder().encodeToString(row.getAs(0)));
    }
    return results;
  }

  /** What a function is to Spark, which 4.3 describes by two lists more than 4.2. */
  private static UserDefinedPythonFunction declared(SimplePythonFunction function) {
    Constructor<?> constructor = UserDefinedPythonFunction.class.getConstructors()[0];
    List<Object> arguments = new ArrayList<>(List.of("lancelet", function, RESULT, MAPS_ARROW, true));
    while (arguments.size() < constructor.getParameterCount()) {
      arguments.add(List.of());
    }
    try {
      return (UserDefinedPythonFunction) constructor.newInstance(arguments.toArray());
    } catch (ReflectiveOperationException other) {
      throw new IllegalStateException("this Spark declares functions of Python's in another way", other);
    }
  }

  /** A function of Python's, as tasks run it. */
  public static SimplePythonFunction function(JsonNode told) {
    return new SimplePythonFunction(
        Base64.getDecoder().decode(told.get(Details.COMMAND).asText()),
        new HashMap<>(Map.of("PYTHONHASHSEED", "0")),
        new ArrayList<>(),
        interpreter(SparkSession.active().sparkContext().conf()),
        told.get(Details.PYTHON_VERSION).asText(),
        new ArrayList<>(),
        null);
  }

  /** Rows as Spark would insert them into a table: values are cast by its rules, or refused. */
  private static Dataset<Row> assigned(SparkSession session, Dataset<Row> rows, String table, StructType columns) {
    List<Attribute> expected = new ArrayList<>(CollectionConverters.asJava(DataTypeUtils.toAttributes(columns)));
    LogicalPlan plan =
        TableOutputResolver.resolveOutputColumns(
            table,
            CollectionConverters.asScala(expected).toList(),
            rows.queryExecution().analyzed(),
            true,
            session.sessionState().conf(),
            TableOutputResolver.resolveOutputColumns$default$6());
    return Dataset.ofRows(session, plan);
  }

  /** The Python of the executors. */
  private static String interpreter(SparkConf conf) {
    String set = System.getenv("PYSPARK_PYTHON");
    return set != null && !set.isEmpty() ? set : conf.get("spark.pyspark.python", "python3");
  }
}
