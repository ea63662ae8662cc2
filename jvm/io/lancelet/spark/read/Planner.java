package io.lancelet.spark.read;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancelet.spark.python.Ask;
import io.lancelet.spark.python.Details;
import io.lancelet.spark.python.Python;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Asks Python what a source is and what its tasks read. The process that answers for catalogs knows, and is there; Spark would
 * start one for each question, which it does where no process may be left behind.
 */
final class Planner {
  private Planner() {}

  /** The columns of a source, and at their end what the options ask for beside them. */
  static StructType columns(Map<String, String> options) {
    return Sentences.told(
        () -> {
          if (!Python.isShared()) {
            CaseInsensitiveStringMap all = new CaseInsensitiveStringMap(options);
            return LanceProvider.freshSource().getOrCreateDataSourceInPython(LanceProvider.NAME, all, Option.empty()).schema();
          }
          JsonNode answer = Python.ask(Ask.DESCRIBE_SOURCE, Map.of(Details.OPTIONS, options));
          return (StructType) DataType.fromJson(answer.get(Details.COLUMNS).toString());
        });
  }

  /** The function of all tasks of a scan, and what each of them gives it. */
  static PythonDataSourceReadInfo tasks(StructType columns, CaseInsensitiveStringMap options) {
    return Sentences.told(
        () -> {
          if (!Python.isShared()) {
            return LanceProvider.freshSource().getOrCreateReadInfo(LanceProvider.NAME, options, columns, false);
          }
          JsonNode json = Options.tree(columns.json());
          return told(
              Python.ask(
                  Ask.PLAN_SOURCE, Map.of(Details.COLUMNS, json, Details.OPTIONS, options.asCaseSensitiveMap())));
        });
  }

  private static PythonDataSourceReadInfo told(JsonNode answer) {
    List<byte[]> partitions = new ArrayList<>();
    answer.get(Details.PARTITIONS).forEach(partition -> partitions.add(decoded(partition)));
    return new PythonDataSourceReadInfo(
        decoded(answer.get(Details.COMMAND)), CollectionConverters.asScala(partitions).toSeq());
  }

  private static byte[] decoded(JsonNode text) {
    return Base64.getDecoder().decode(text.asText());
  }
}
