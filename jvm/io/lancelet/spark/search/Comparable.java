package io.lancelet.spark.search;

import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.types.DataTypes;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/**
 * Conditions on texts as comparisons with a number: Spark hands these to scans, but no functions that are conditions
 * themselves.
 */
public final class Comparable extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return (LogicalPlan)
        plan.transformAllExpressions(
            new AbstractPartialFunction<Expression, Expression>() {
              @Override
              public boolean isDefinedAt(Expression expression) {
                return expression instanceof ApplyFunctionExpression applied
                    && applied.function() instanceof MatchFunction.Bound bound
                    && bound.resultType().equals(DataTypes.BooleanType);
              }

              @Override
              public <A extends Expression, B> B applyOrElse(A expression, Function1<A, B> otherwise) {
                return isDefinedAt(expression) ? made((ApplyFunctionExpression) expression) : otherwise.apply(expression);
              }
            });
  }

  @SuppressWarnings("unchecked")
  private static <B> B made(ApplyFunctionExpression applied) {
    MatchFunction.Bound bound = (MatchFunction.Bound) applied.function();
    MatchFunction.Bound number = new MatchFunction.Bound(bound.name(), bound.inputTypes(), DataTypes.IntegerType);
    Expression one = new Literal(1, DataTypes.IntegerType);
    return (B) new EqualTo(new ApplyFunctionExpression(number, applied.children()), one);
  }
}
