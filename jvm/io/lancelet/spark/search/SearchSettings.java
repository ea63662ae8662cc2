package io.lancelet.spark.search;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.Metadata;

/** Settings of a session for searches that rules make of queries. */
final class SearchSettings {
  private static final String NPROBES = "spark.lance.knn.nprobes";
  private static final String REFINE = "spark.lance.knn.refineFactor";
  private static final String USE_INDEX = "spark.lance.knn.useIndex";
  private static final String VECTOR = "fixed_size_list:";

  private SearchSettings() {}

  static boolean isOn(String setting) {
    return Boolean.parseBoolean(SQLConf.get().getConfString(setting, "true"));
  }

  /** How to search. */
  static Map<String, Object> chosen() {
    Map<String, Object> chosen = new HashMap<>(Map.of("use_index", isOn(USE_INDEX)));
    put(chosen, "nprobes", NPROBES);
    put(chosen, "refine_factor", REFINE);
    return chosen;
  }

  private static void put(Map<String, Object> chosen, String name, String setting) {
    String set = SQLConf.get().getConfString(setting, null);
    if (set != null) {
      if (!set.matches("[1-9]\\d{0,8}")) {
        throw new IllegalArgumentException(setting + " is a number above 0, not '" + set + "'");
      }
      chosen.put(name, Integer.parseInt(set));
    }
  }

  /** Whether a column has vectors that Lance searches. */
  static boolean isVector(AttributeReference attribute, Expression column) {
    return column == attribute && kept(attribute).startsWith(VECTOR);
  }

  /** Whether they have some length. */
  static boolean isVector(AttributeReference attribute, Expression column, int length) {
    return isVector(attribute, column) && kept(attribute).endsWith(":" + length);
  }

  private static String kept(AttributeReference attribute) {
    Metadata metadata = attribute.metadata();
    return metadata.contains("lance.type") ? metadata.getString("lance.type") : "";
  }
}
