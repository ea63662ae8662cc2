package io.lancelet.spark.sql;

import java.util.ArrayList;
import java.util.List;

/** A procedure and its arguments, and how they are written for Spark's parser. */
final class Call {
  private final String catalog;
  private final String procedure;
  private final List<String> arguments = new ArrayList<>();

  Call(String procedure, List<String> table) {
    this.catalog = table.get(0);
    this.procedure = procedure;
    with("table", quote(written(table)));
  }

  Call with(String parameter, String expression) {
    if (expression != null) {
      arguments.add(written(List.of(parameter)) + " => " + expression);
    }
    return this;
  }

  String written() {
    return "CALL " + written(List.of(catalog, "system", procedure)) + "(" + String.join(", ", arguments) + ")";
  }

  /** A name with backticks. */
  static String written(List<String> parts) {
    List<String> quoted = new ArrayList<>();
    parts.forEach(part -> quoted.add("`" + part.replace("`", "``") + "`"));
    return String.join(".", quoted);
  }

  /** A text for Spark's parser, however it is set to read backslashes and doubled quotes. */
  static String quote(String text) {
    if (text.indexOf('\'') < 0 && text.indexOf('\\') < 0) {
      return "'" + text + "'";
    }
    List<String> pieces = new ArrayList<>();
    for (String piece : text.split("(?<=['\\\\])|(?=['\\\\])")) {
      pieces.add(piece.equals("'") ? "char(39)" : piece.equals("\\") ? "char(92)" : "'" + piece + "'");
    }
    return "concat(" + String.join(", ", pieces) + ")";
  }
}
