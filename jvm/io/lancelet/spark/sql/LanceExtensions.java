package io.lancelet.spark.sql;

import io.lancelet.spark.rowlevel.RowChanges;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.write.RowLevelOperation.Command;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/** What {@code spark.sql.extensions} adds to a session: statements and rules that Spark does not have. */
public class LanceExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    // With the hints: what the analyser does afterwards refuses columns that the table has not.
    extensions.injectHintResolutionRule(rule(MergeSchema::new));
    extensions.injectPostHocResolutionRule(rule(session -> new RowChanges(Command.UPDATE, Command.MERGE)));
    extensions.injectPreCBORule(rule(session -> new RowChanges(Command.DELETE)));
    extensions.injectParser(
        new AbstractFunction2<>() {
          @Override
          public ParserInterface apply(SparkSession session, ParserInterface next) {
            return new LanceParser(session, next);
          }
        });
    return BoxedUnit.UNIT;
  }

  /** Java's functions as Scala's, whose interface has methods that are not Java's. */
  private static AbstractFunction1<SparkSession, Rule<LogicalPlan>> rule(
      java.util.function.Function<SparkSession, Rule<LogicalPlan>> make) {
    return new AbstractFunction1<>() {
      @Override
      public Rule<LogicalPlan> apply(SparkSession session) {
        return make.apply(session);
      }
    };
  }
}
