package io.lancelet.spark.sql;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.NumericType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * {@code table_changes('t', from [, to])} of Delta's, with versions or times: {@code SELECT * FROM t CHANGES FROM ... TO ...}.
 */
final class TableChanges {
  static final String NAME = "table_changes";

  private TableChanges() {}

  static LogicalPlan of(Seq<Expression> arguments) {
    List<Expression> given = new ArrayList<>(CollectionConverters.asJava(arguments));
    if (given.size() < 2 || given.size() > 3 || !given.stream().allMatch(Expression::foldable)) {
      throw new IllegalArgumentException(
          NAME + " takes the name of a table, the first version or time, and perhaps the last one, as constants");
    }
    Object table = given.get(0).eval(InternalRow.empty());
    String text = "SELECT * FROM " + table + " CHANGES FROM " + bound(given.get(1));
    try {
      return SparkSession.active()
          .sessionState()
          .sqlParser()
          .parsePlan(given.size() < 3 ? text : text + " TO " + bound(given.get(2)));
    } catch (ParseException unreadable) {
      throw new IllegalArgumentException(NAME + " cannot be read as: " + text, unreadable);
    }
  }

  private static String bound(Expression given) {
    if (given.dataType() instanceof NumericType) {
      return "VERSION " + given.eval(InternalRow.empty());
    }
    // Of times, Spark (4.3) reads only those that are written out.
    String time = "SELECT CAST(CAST(" + given.sql() + " AS TIMESTAMP) AS STRING)";
    return "TIMESTAMP " + Call.quote(String.valueOf(SparkSession.active().sql(time).head().get(0)));
  }
}
