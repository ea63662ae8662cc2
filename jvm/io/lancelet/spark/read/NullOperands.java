package io.lancelet.spark.read;

import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.types.DataTypes;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/**
 * AND and OR with a null as an IF of the same meaning. Spark makes such of comparisons with NaN, and when they stand in another
 * comparison it fails on them where it describes conditions to scans.
 */
public final class NullOperands extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return (LogicalPlan)
        plan.transformAllExpressions(
            new AbstractPartialFunction<Expression, Expression>() {
              @Override
              public boolean isDefinedAt(Expression expression) {
                return (expression instanceof Or either && (isNull(either.left()) || isNull(either.right())))
                    || (expression instanceof And both && (isNull(both.left()) || isNull(both.right())));
              }

              @Override
              public <A extends Expression, B> B applyOrElse(A expression, Function1<A, B> otherwise) {
                return isDefinedAt(expression) ? made(expression) : otherwise.apply(expression);
              }
            });
  }

  @SuppressWarnings("unchecked")
  private static <B> B made(Expression expression) {
    Expression left = expression instanceof Or either ? either.left() : ((And) expression).left();
    Expression right = expression instanceof Or either ? either.right() : ((And) expression).right();
    Expression other = isNull(left) ? right : left;
    Expression unknown = new Literal(null, DataTypes.BooleanType);
    return (B)
        (expression instanceof Or
            ? new If(other, new Literal(true, DataTypes.BooleanType), unknown)
            : new If(new Not(other), new Literal(false, DataTypes.BooleanType), unknown));
  }

  private static boolean isNull(Expression expression) {
    return expression instanceof Literal literal && literal.value() == null;
  }
}
