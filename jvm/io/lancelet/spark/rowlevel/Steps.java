package io.lancelet.spark.rowlevel;

import com.fasterxml.jackson.core.JsonProcessingException;
import io.lancelet.spark.python.Python;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What a statement does with rows, each with a number: the kind of the step and the columns that get new values.
 *
 * <pre>
 *   {"steps": [["update", ["a", "b"]], ["delete", []]], "columns": ["a", "b"], "kept": [["b", "x"]], "predicate": "(id > 3)"}
 * </pre>
 */
final class Steps {
  static final String UPDATE = "update";
  static final String DELETE = "delete";
  static final String INSERT = "insert";

  private final List<List<Object>> steps = new ArrayList<>();
  private final Set<String> assigned = new LinkedHashSet<>();
  private final Set<List<String>> kept = new LinkedHashSet<>();

  /** The number of a step. */
  int add(String kind, List<String> columns) {
    List<Object> step = List.of(kind, columns);
    int known = steps.indexOf(step);
    if (known >= 0) {
      return known;
    }
    steps.add(step);
    assigned.addAll(columns);
    return steps.size() - 1;
  }

  @SuppressWarnings("unchecked")
  List<String> columnsOf(int step) {
    return (List<String>) steps.get(step).get(1);
  }

  /** Notes a field that keeps its value inside of a column that gets another one. */
  void keep(List<String> path) {
    kept.add(path);
  }

  /** Those of {@code all} columns that get values, in their order. */
  List<String> columns(List<String> all) {
    return all.stream().filter(assigned::contains).toList();
  }

  String toJson(List<String> all, String predicate) {
    try {
      return Python.JSON.writeValueAsString(
          Map.of("steps", steps, "columns", columns(all), "kept", kept, "predicate", predicate));
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
