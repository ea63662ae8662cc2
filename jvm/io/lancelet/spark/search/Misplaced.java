package io.lancelet.spark.search;

import io.lancelet.spark.read.LanceTable;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy$;

/** Refuses conditions on texts that no scan will take, before a task would. */
public final class Misplaced extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    LanceTable table = plan instanceof Filter filter ? scanned(filter.child()) : null;
    for (Expression expression : Scala.<Expression>list(plan.expressions())) {
      check(expression, table);
    }
    for (LogicalPlan child : Scala.<LogicalPlan>list(plan.children())) {
      apply(child);
    }
    return plan;
  }

  /** The Lance table that a plan reads as it is, so that it can be searched; null for others. */
  static LanceTable scanned(LogicalPlan plan) {
    if (!(plan instanceof DataSourceV2Relation relation)) {
      return null;
    }
    Table table = relation.table() instanceof RowLevelOperationTable changed ? changed.table() : relation.table();
    return table instanceof LanceTable lance && lance.isSearchable(relation.options()) ? lance : null;
  }

  /** Whether a scan tests a condition, so that Spark does not. */
  static boolean isTaken(Expression condition, LanceTable table) {
    scala.Option<org.apache.spark.sql.connector.expressions.filter.Predicate> predicate =
        DataSourceV2Strategy$.MODULE$.translateFilterV2(condition);
    return predicate.isDefined() && table.takes(predicate.get());
  }

  private static void check(Expression expression, LanceTable table) {
    if (table != null && expression instanceof And both) {
      check(both.left(), table);
      check(both.right(), table);
      return;
    }
    String name = function(expression);
    if (name != null && (table == null || !isTaken(expression, table))) {
      throw MatchFunction.misplaced(name);
    }
  }

  /** The function on texts that an expression has in it; null for none. */
  static String function(Expression expression) {
    if (expression instanceof ApplyFunctionExpression applied && applied.function() instanceof MatchFunction.Bound bound) {
      return bound.name();
    }
    List<Expression> children = Scala.list(expression.children());
    return children.stream().map(Misplaced::function).filter(name -> name != null).findFirst().orElse(null);
  }
}
