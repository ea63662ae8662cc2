package io.lancelet.spark.read;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import io.lancelet.spark.python.Python;

/** Options by which a scan tells Python what Spark wants of it; {@code lancelet.spark.bridge} has the same. */
public final class Options {
  static final String URI = "lance.uri";
  static final String VERSION = "lance.version";
  static final String PARALLELISM = "lance.parallelism";
  static final String PREDICATES = "lance.predicates";
  static final String LIMIT = "lance.limit";
  static final String OFFSET = "lance.offset";
  static final String ORDER = "lance.order";
  static final String SAMPLE = "lance.sample";
  static final String RUNTIME = "lance.runtime";
  static final String AGGREGATES = "lance.aggregates";

  /** Put by a rule: only rows whose vectors are nearest to one. */
  public static final String NEAREST = "lance.nearest";

  /** The same, as plans show it. */
  public static final String NEAREST_SHOWN = "lance.nearestShown";

  private Options() {}

  /** What a text says, for a message that it becomes a part of. */
  static JsonNode tree(String json) {
    try {
      return Python.JSON.readTree(json);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** A value as a text. */
  public static String json(Object value) {
    try {
      return Python.JSON.writeValueAsString(value);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
