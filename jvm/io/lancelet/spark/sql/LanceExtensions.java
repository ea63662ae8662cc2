package io.lancelet.spark.sql;

import io.lancelet.spark.python.Python;
import io.lancelet.spark.read.NullOperands;
import io.lancelet.spark.rowlevel.FewMatches;
import io.lancelet.spark.rowlevel.RowChanges;
import io.lancelet.spark.search.BlobFunction;
import io.lancelet.spark.search.Comparable;
import io.lancelet.spark.search.MatchFunction;
import io.lancelet.spark.search.Misplaced;
import io.lancelet.spark.search.NearestJoin;
import io.lancelet.spark.search.NearestOrder;
import io.lancelet.spark.search.SearchFunction;
import java.util.function.Function;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.write.RowLevelOperation.Command;
import scala.Tuple3;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/** What {@code spark.sql.extensions} adds to a session: statements and rules that Spark does not have. */
public class LanceExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    String version = org.apache.spark.package$.MODULE$.SPARK_VERSION();
    if (version.matches("(3\\..*|4\\.[01]\\b.*)")) {
      throw new IllegalStateException(
          "lancelet needs Spark 4.2 or later, and this is Spark " + version + ": leave spark.sql.extensions out, or take another Spark");
    }
    Python.startEarly();
    // With the hints: what the analyser does afterwards refuses columns and paths in words of its own.
    extensions.injectHintResolutionRule(rule(MergeSchema::new));
    extensions.injectHintResolutionRule(rule(MissingPaths::new));
    extensions.injectPostHocResolutionRule(rule(session -> new RowChanges(Command.UPDATE, Command.MERGE)));
    extensions.injectPreCBORule(rule(session -> new NullOperands()));
    extensions.injectPreCBORule(rule(session -> new RowChanges(Command.DELETE)));
    extensions.injectPreCBORule(rule(session -> new FewMatches()));
    extensions.injectTableFunction(
        new Tuple3<>(
            new FunctionIdentifier(TableChanges.NAME),
            new ExpressionInfo(TableChanges.class.getName(), TableChanges.NAME),
            function(TableChanges::of)));
    SearchFunction.all()
        .forEach(
            function ->
                extensions.injectTableFunction(
                    new Tuple3<>(
                        new FunctionIdentifier(function.name()),
                        new ExpressionInfo(SearchFunction.class.getName(), function.name()),
                        function)));
    MatchFunction.ALL
        .keySet()
        .forEach(
            name ->
                extensions.injectFunction(
                    new Tuple3<>(
                        new FunctionIdentifier(name),
                        new ExpressionInfo(MatchFunction.class.getName(), name),
                        new MatchFunction(name).builder())));
    extensions.injectFunction(
        new Tuple3<>(
            new FunctionIdentifier(BlobFunction.NAME),
            new ExpressionInfo(BlobFunction.class.getName(), BlobFunction.NAME),
            new BlobFunction()));
    extensions.injectOptimizerRule(rule(session -> new Comparable()));
    extensions.injectPostHocResolutionRule(rule(session -> new NearestJoin()));
    extensions.injectPreCBORule(rule(session -> new Misplaced()));
    extensions.injectPreCBORule(rule(session -> new NearestOrder()));
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
      Function<SparkSession, Rule<LogicalPlan>> make) {
    return function(make);
  }

  private static <A, B> AbstractFunction1<A, B> function(Function<A, B> made) {
    return new AbstractFunction1<>() {
      @Override
      public B apply(A given) {
        return made.apply(given);
      }
    };
  }
}
