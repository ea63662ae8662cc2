package io.lancelet.spark.rowlevel;

import io.lancelet.spark.read.LanceTable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.NamedRelation;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.V2ScanRelationPushDown$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import scala.Option;
import scala.Some;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.math.BigInt;
import scala.runtime.AbstractFunction1;

/**
 * A MERGE that inserts is an outer join: Spark would move and sort all rows of the table to find those few that a small source
 * has. These are picked out where they are read, by keys that are broadcast:
 *
 * <pre>
 *   few = LeftSemi(table, keys of the source, equalities of c)
 *
 *   RightOuter(table, source, c)  =  RightOuter(few, source, c)     a MERGE that changes rows, too
 *   LeftAnti(source, table, c)    =  LeftAnti(source, few, c)       one that only inserts
 * </pre>
 *
 * The source is asked twice. It must have the same keys both times, or a row whose key was missing the first time would be
 * inserted once more: so it is done only for a {@link Steady} one.
 */
public final class FewMatches extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return reduced(plan, false);
  }

  private static LogicalPlan reduced(LogicalPlan plan, boolean isWritten) {
    boolean isWrite = isWritten || plan instanceof V2WriteCommand write && isOurs(write.table());
    LogicalPlan done =
        plan.mapChildren(
            new AbstractFunction1<>() {
              @Override
              public LogicalPlan apply(LogicalPlan child) {
                return reduced(child, isWrite);
              }
            });
    if (!(done instanceof Join join)) {
      return done;
    }
    if (join.joinType() == (JoinType) RightOuter$.MODULE$ && findsAddresses(join.left())) {
      LogicalPlan few = few(join.left(), join.right(), join.condition());
      return join.copy(few, join.right(), join.joinType(), join.condition(), join.hint());
    }
    if (join.joinType() == (JoinType) LeftAnti$.MODULE$ && isWrite && relation(join.right()) != null) {
      LogicalPlan few = few(join.right(), join.left(), join.condition());
      return join.copy(join.left(), few, join.joinType(), join.condition(), join.hint());
    }
    return join;
  }

  /** Those rows of the table whose keys the source has; all of them where that is not known to be the same, or does not pay. */
  private static LogicalPlan few(LogicalPlan table, LogicalPlan source, Option<Expression> condition) {
    if (condition.isEmpty() || !condition.get().deterministic()) {
      return table;
    }
    List<NamedExpression> keys = new ArrayList<>();
    Expression equalities = null;
    for (Expression part : parts(condition.get(), new ArrayList<>())) {
      Expression equality = equality(part, table, source, keys);
      if (equality != null) {
        equalities = equalities == null ? equality : new And(equalities, equality);
      }
    }
    if (equalities == null) {
      return table;
    }
    LogicalPlan found = new Project(seq(keys), source);
    LogicalPlan planned = planned(found);
    BigInt most = BigInt.apply(SQLConf.get().autoBroadcastJoinThreshold());
    boolean pays = size(planned).$less$eq(most) && size(planned(table)).$greater(most);
    return pays && Steady.is(planned)
        ? new Join(table, found, LeftSemi$.MODULE$, new Some<>(equalities), JoinHint.NONE())
        : table;
  }

  /** Whether these are rows of one of our tables with their addresses: they are looked for in order to be changed. */
  private static boolean findsAddresses(LogicalPlan plan) {
    DataSourceV2Relation relation = relation(plan);
    return relation != null
        && FewMatches.<Attribute>list(relation.output()).stream()
            .anyMatch(each -> each.name().equals(RowChange.ADDRESS));
  }

  /** One of our tables, if these are its rows, maybe not all of them. */
  private static DataSourceV2Relation relation(LogicalPlan plan) {
    LogicalPlan inner = plan;
    while (inner instanceof Project || inner instanceof Filter) {
      inner = inner instanceof Project project ? project.child() : ((Filter) inner).child();
    }
    return inner instanceof DataSourceV2Relation found && isOurs(found) ? found : null;
  }

  private static boolean isOurs(NamedRelation relation) {
    return relation instanceof DataSourceV2Relation found && (isOurs(found.table()) || found.table() instanceof RowTarget);
  }

  private static boolean isOurs(Table table) {
    return table instanceof RowLevelOperationTable target ? isOurs(target.table()) : table instanceof LanceTable;
  }

  /** The plan as it will be read: sizes are those of scans, and these are not made yet when Spark asks for rules like this. */
  private static LogicalPlan planned(LogicalPlan plan) {
    return V2ScanRelationPushDown$.MODULE$.apply(plan);
  }

  private static BigInt size(LogicalPlan plan) {
    return plan.stats().sizeInBytes();
  }

  /** An equality of a side's value with one of the other side, over a key that is added to {@code keys}; or null. */
  private static Expression equality(
      Expression part, LogicalPlan table, LogicalPlan source, List<NamedExpression> keys) {
    if (!(part instanceof EqualTo) && !(part instanceof EqualNullSafe)) {
      return null;
    }
    Expression first = part.children().apply(0);
    Expression second = part.children().apply(1);
    boolean isTurned = isOf(source, first) && isOf(table, second);
    Expression own = isTurned ? second : first;
    Expression other = isTurned ? first : second;
    boolean isPair = isOf(table, own) && isOf(source, other);
    if (!isPair || !isExact(own.dataType())) {
      return null;
    }
    Alias key =
        new Alias(other, "key" + keys.size(), NamedExpression.newExprId(), seq(List.of()), Option.empty(), seq(List.of()));
    keys.add(key);
    return part instanceof EqualTo ? new EqualTo(own, key.toAttribute()) : new EqualNullSafe(own, key.toAttribute());
  }

  private static boolean isOf(LogicalPlan side, Expression expression) {
    return !expression.references().isEmpty() && expression.references().subsetOf(side.outputSet());
  }

  /** Sums of floating-point numbers are others in another order. */
  private static boolean isExact(DataType type) {
    return !type.existsRecursively(
        new AbstractFunction1<>() {
          @Override
          public Object apply(DataType each) {
            return each instanceof DoubleType || each instanceof FloatType;
          }
        });
  }

  private static List<Expression> parts(Expression condition, List<Expression> found) {
    if (condition instanceof And both) {
      parts(both.left(), found);
      parts(both.right(), found);
    } else {
      found.add(condition);
    }
    return found;
  }

  private static <T> List<T> list(Seq<? extends T> given) {
    return new ArrayList<>(CollectionConverters.asJava(given));
  }

  private static <T> Seq<T> seq(List<? extends T> given) {
    return CollectionConverters.asScala(new ArrayList<T>(given)).toList();
  }
}
