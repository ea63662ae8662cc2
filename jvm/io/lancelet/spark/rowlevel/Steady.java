package io.lancelet.spark.rowlevel;

import io.lancelet.spark.read.LanceScan;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.catalyst.plans.logical.Repartition;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Whether a query has the same rows whenever it is run. Spark tells of expressions whether they depend on chance, but not of
 * limits, windows with ties, code of users, or sources that others change: what is not known here is not steady.
 */
final class Steady {
  private static final Set<Class<? extends LogicalPlan>> NODES =
      Set.of(
          Project.class,
          Filter.class,
          Join.class,
          Union.class,
          Aggregate.class,
          Sort.class,
          Repartition.class,
          RepartitionByExpression.class,
          Range.class,
          LocalRelation.class,
          OneRowRelation.class);

  private Steady() {}

  static boolean is(LogicalPlan plan) {
    boolean isKnown = NODES.contains(plan.getClass()) || isPinned(plan);
    return isKnown
        && CollectionConverters.asJava(plan.expressions()).stream().allMatch(Steady::is)
        && CollectionConverters.asJava(plan.children()).stream().allMatch(Steady::is);
  }

  private static boolean isPinned(LogicalPlan plan) {
    return plan instanceof LogicalRelation files && files.relation() instanceof HadoopFsRelation
        || plan instanceof DataSourceV2ScanRelation found && found.scan() instanceof LanceScan scan && scan.isPinned();
  }

  private static boolean is(Expression expression) {
    boolean isKnown =
        expression.deterministic()
            && !(expression instanceof UserDefinedExpression)
            && !(expression instanceof PlanExpression)
            && !isCollated(expression.dataType());
    // Others depend on the order of their rows, if only in the last digit.
    boolean isSum =
        expression instanceof AggregateExpression made
            && !(made.aggregateFunction() instanceof Max
                || made.aggregateFunction() instanceof Min
                || made.aggregateFunction() instanceof Count);
    return isKnown
        && !isSum
        && CollectionConverters.asJava(expression.children()).stream().allMatch(Steady::is);
  }

  /** Which of several texts that are equal stands for all of them is left to chance. */
  private static boolean isCollated(DataType type) {
    return type.existsRecursively(
        new AbstractFunction1<>() {
          @Override
          public Object apply(DataType each) {
            return each instanceof StringType text && !text.isUTF8BinaryCollation();
          }
        });
  }
}
