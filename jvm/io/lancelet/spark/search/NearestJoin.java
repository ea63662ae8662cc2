package io.lancelet.spark.search;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancelet.spark.python.Ask;
import io.lancelet.spark.python.Details;
import io.lancelet.spark.python.Job;
import io.lancelet.spark.python.Python;
import io.lancelet.spark.read.Conditions;
import io.lancelet.spark.read.LanceTable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Between;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.NearestByDistance$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapInArrow;
import org.apache.spark.sql.catalyst.plans.logical.NearestByJoin;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy$;
import org.apache.spark.sql.types.CalendarIntervalType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.UserDefinedType;
import org.apache.spark.sql.types.YearMonthIntervalType;
import scala.Option;
import scala.runtime.AbstractFunction1;

/**
 * {@code JOIN t APPROX NEAREST k BY DISTANCE vector_l2_distance(q.v, t.v)} with a Lance table on the right: each task asks the
 * index about the rows of its partition, and nothing is shuffled. What is not understood stays Spark's own join, which compares
 * all pairs.
 */
public final class NearestJoin extends Rule<LogicalPlan> {
  private static final String SETTING = "spark.lance.knn.indexedNearestByJoin.enabled";

  /** Spark's number for functions from batches of rows to batches of rows. */
  private static final int MAPS_ARROW = 207;

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    LogicalPlan inner =
        plan.mapChildren(
            new AbstractFunction1<>() {
              @Override
              public LogicalPlan apply(LogicalPlan child) {
                return NearestJoin.this.apply(child);
              }
            });
    if (inner instanceof NearestByJoin join && join.resolved() && join.approx() && SearchSettings.isOn(SETTING)) {
      LogicalPlan found = searched(join);
      return found == null ? inner : found;
    }
    return inner;
  }

  private static LogicalPlan searched(NearestByJoin join) {
    Right right = Right.of(join.right());
    Distance distance = Distance.of(join.rankingExpression());
    boolean areHanded = Scala.<Attribute>list(join.left().output()).stream().allMatch(each -> isHanded(each.dataType()));
    if (!areHanded || right == null || distance == null || distance.ascends() != (join.direction() == NearestByDistance$.MODULE$)) {
      return null;
    }
    Distance turned = right.has(distance.left()) ? distance.flipped() : distance;
    AttributeReference query = Distance.column(Distance.uncast(turned.left()));
    Expression sought = Distance.uncast(turned.right());
    boolean areColumns = query == Distance.uncast(turned.left()) && join.left().outputSet().contains(query) && right.has(sought);
    if (!areColumns || !SearchSettings.isVector((AttributeReference) sought, sought)) {
      return null;
    }
    return joined(join, right, turned, query, (AttributeReference) sought);
  }

  /** Whether tasks of Python's take values of a type, and give them back. */
  private static boolean isHanded(DataType type) {
    return !type.existsRecursively(
        new AbstractFunction1<>() {
          @Override
          public Object apply(DataType part) {
            return part instanceof YearMonthIntervalType || part instanceof CalendarIntervalType || part instanceof UserDefinedType;
          }
        });
  }

  private static LogicalPlan joined(
      NearestByJoin join, Right right, Distance distance, AttributeReference query, AttributeReference sought) {
    List<Attribute> left = Scala.list(join.left().output());
    List<NamedExpression> handed = new ArrayList<>();
    for (int at = 0; at < left.size(); at++) {
      // Both sides may have columns of the same name.
      handed.add(Scala.named((Expression) left.get(at), "l" + at));
    }
    Map<String, Object> search = new HashMap<>(SearchSettings.chosen());
    search.put("column", List.of(right.name(sought)));
    search.put("k", join.numResults());
    search.put("metric", distance.metric());
    search.put("on", "l" + left.indexOf(query));
    search.put("left", join.joinType() == LeftOuter$.MODULE$);
    search.put("columns", right.names());
    Map<String, Object> details = new HashMap<>();
    details.put(Details.PLACE, right.place);
    details.put(Details.CONDITIONS, right.conditions.isEmpty() ? null : Conditions.toJson(right.conditions));
    details.put(Details.OPTIONS, search);
    Project numbered = new Project(Scala.seq(handed), join.left());
    List<Attribute> output = Scala.list(join.output());
    StructType result = new StructType();
    for (int at = 0; at < output.size(); at++) {
      String name = at < left.size() ? "l" + at : "r" + (at - left.size());
      result = result.add(name, output.get(at).dataType(), output.get(at).nullable());
    }
    details.put(Details.RESULT, result.json());
    JsonNode told = Python.ask(Ask.PLAN_JOIN, details);
    PythonUDF function =
        new PythonUDF(
            "nearest(" + right.table.name() + ", " + right.name(sought) + ", " + distance.metric() + ", k=" + join.numResults() + ")",
            Job.function(told),
            result,
            Scala.seq(Scala.<Attribute>list(numbered.output())),
            MAPS_ARROW,
            true,
            NamedExpression.newExprId());
    return new MapInArrow(function, Scala.seq(output), numbered, false, Option.empty());
  }

  /** The side that is searched: columns of a Lance table, and conditions that its scan tests. */
  private static final class Right {
    private final LanceTable table;
    private final Map<String, Object> place;
    private final List<Attribute> output;
    private final List<Object> conditions;

    private Right(LanceTable table, Map<String, Object> place, List<Attribute> output, List<Object> conditions) {
      this.table = table;
      this.place = place;
      this.output = output;
      this.conditions = conditions;
    }

    /** Null when it is anything else. */
    static Right of(LogicalPlan plan) {
      List<Object> conditions = new ArrayList<>();
      LogicalPlan inner = plan;
      while (!(inner instanceof DataSourceV2Relation)) {
        if (inner instanceof SubqueryAlias alias) {
          inner = alias.child();
        } else if (inner instanceof View view) {
          inner = view.child();
        } else if (inner instanceof Project project && isPlain(project)) {
          inner = project.child();
        } else if (inner instanceof Filter filter) {
          List<Expression> parts = new ArrayList<>();
          split(filter.condition(), parts);
          LanceTable found = scanned(filter.child());
          for (Expression part : parts) {
            Optional<List<Object>> condition = found == null ? Optional.empty() : condition(part, found);
            if (condition.isEmpty()) {
              return null;
            }
            conditions.add(condition.get());
          }
          inner = filter.child();
        } else {
          return null;
        }
      }
      LanceTable table = Misplaced.scanned(inner);
      List<Attribute> output = Scala.list(plan.output());
      boolean areStored = table != null && output.stream().allMatch(each -> table.schema().getFieldIndex(each.name()).isDefined());
      if (!areStored) {
        return null;
      }
      return new Right(table, table.place(((DataSourceV2Relation) inner).options()), output, conditions);
    }

    private static LanceTable scanned(LogicalPlan plan) {
      LogicalPlan inner = plan;
      while (inner instanceof SubqueryAlias || inner instanceof View || inner instanceof Project || inner instanceof Filter) {
        inner = Scala.<LogicalPlan>list(inner.children()).get(0);
      }
      return Misplaced.scanned(inner);
    }

    private static Optional<List<Object>> condition(Expression part, LanceTable table) {
      Option<Predicate> predicate = DataSourceV2Strategy$.MODULE$.translateFilterV2(folded(part));
      return predicate.isEmpty() ? Optional.empty() : table.translated(predicate.get());
    }

    /** With constants in place of what is one. */
    private static Expression folded(Expression expression) {
      if (expression.foldable()) {
        return expression instanceof Literal ? expression : new Literal(expression.eval(null), expression.dataType());
      }
      List<Expression> children = new ArrayList<>();
      Scala.<Expression>list(expression.children()).forEach(child -> children.add(folded(child)));
      return (Expression) expression.withNewChildren(Scala.seq(children));
    }

    private static boolean isPlain(Project project) {
      return Scala.<NamedExpression>list(project.projectList()).stream().allMatch(AttributeReference.class::isInstance);
    }

    /** The parts of a condition, which the optimizer has not seen yet. */
    private static void split(Expression condition, List<Expression> parts) {
      if (condition instanceof Between between) {
        parts.add(new GreaterThanOrEqual(between.input(), between.lower()));
        parts.add(new LessThanOrEqual(between.input(), between.upper()));
      } else if (condition instanceof RuntimeReplaceable replaced) {
        split(replaced.replacement(), parts);
      } else if (condition instanceof And both) {
        split(both.left(), parts);
        split(both.right(), parts);
      } else {
        parts.add(condition);
      }
    }

    boolean has(Expression expression) {
      AttributeReference column = Distance.column(Distance.uncast(expression));
      return column != null && output.stream().anyMatch(each -> each.exprId().equals(column.exprId()));
    }

    String name(AttributeReference column) {
      return column.name();
    }

    List<String> names() {
      return output.stream().map(Attribute::name).toList();
    }
  }
}
