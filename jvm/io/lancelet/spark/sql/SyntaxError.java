package io.lancelet.spark.sql;

import io.lancelet.spark.sql.Words.Kind;
import io.lancelet.spark.sql.Words.Word;
import java.util.Map;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin;
import org.apache.spark.sql.catalyst.trees.Origin;
import scala.Option;

/** A statement of ours that does not go on as it should, in the words that Spark has for it. */
final class SyntaxError {
  private SyntaxError() {}

  static ParseException at(String text, Word word, String hint) {
    String before = text.substring(0, word.start());
    int line = 1 + (int) before.chars().filter(mark -> mark == '\n').count();
    String shown = word.kind() == Kind.END ? "end of input" : "'" + text.substring(word.start(), word.stop()) + "'";
    Map<String, String> parameters = Map.of("error", shown, "hint", ": " + hint);
    return new ParseException(
        Option.apply(text), origin(line, word.start() - before.lastIndexOf('\n') - 1), "PARSE_SYNTAX_ERROR",
        PythonUtils.toScalaMap(parameters));
  }

  /** What makes an origin differs between versions of Spark. */
  private static Origin origin(int line, int column) {
    Origin before = CurrentOrigin.get();
    try {
      CurrentOrigin.setPosition(line, column);
      return CurrentOrigin.get();
    } finally {
      CurrentOrigin.set(before);
    }
  }
}
