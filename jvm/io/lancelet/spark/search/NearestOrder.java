package io.lancelet.spark.search;

import io.lancelet.spark.read.LanceTable;
import io.lancelet.spark.read.Options;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.runtime.AbstractFunction1;

/**
 * ORDER BY a distance LIMIT k of a Lance table: its scan gives only the rows that can be among the first, as a search finds
 * them. Spark sorts these as it would sort all.
 */
public final class NearestOrder extends Rule<LogicalPlan> {
  private static final String SETTING = "spark.lance.knn.orderByDistance.enabled";

  /** More rows than so many are not looked for. */
  private static final int MOST = 10_000;

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan instanceof GlobalLimit limit
        && limit.child() instanceof LocalLimit local
        && local.limitExpr() instanceof Literal count
        && SearchSettings.isOn(SETTING)) {
      LogicalPlan found = sorted(local.child(), (Integer) count.value());
      if (found != null) {
        return limit.copy(limit.limitExpr(), local.copy(local.limitExpr(), found));
      }
    }
    return plan.mapChildren(
        new AbstractFunction1<>() {
          @Override
          public LogicalPlan apply(LogicalPlan child) {
            return NearestOrder.this.apply(child);
          }
        });
  }

  /** A sort, maybe below a projection, over a search; null when it is none that is understood. */
  private static LogicalPlan sorted(LogicalPlan plan, int count) {
    if (plan instanceof Project project) {
      LogicalPlan found = sorted(project.child(), count);
      return found == null ? null : project.copy(project.projectList(), found);
    }
    if (!(plan instanceof Sort sort) || !sort.global()) {
      return null;
    }
    List<SortOrder> orders = Scala.list(sort.order());
    LogicalPlan found = searched(sort.child(), orders.get(0), orders.size() > 1, count);
    return found == null ? null : sort.copy(sort.order(), sort.global(), found, sort.hint());
  }

  /** The same plan over a search; null when it is none that is understood. */
  private static LogicalPlan searched(LogicalPlan plan, SortOrder order, boolean hasMoreKeys, int count) {
    List<Project> projects = new ArrayList<>();
    Expression key = order.child();
    LogicalPlan inner = plan;
    while (inner instanceof Project project) {
      key = replaced(key, project);
      projects.add(project);
      inner = project.child();
    }
    List<Expression> conditions = new ArrayList<>();
    Filter filter = inner instanceof Filter found ? found : null;
    if (filter != null) {
      split(filter.condition(), conditions);
      inner = filter.child();
    }
    LanceTable table = Misplaced.scanned(inner);
    if (table == null || key == null || count < 1 || count > MOST || !conditions.stream().allMatch(each -> isPlain(each, table))) {
      return null;
    }
    DataSourceV2Relation relation = (DataSourceV2Relation) inner;
    Map<String, Object> search = search(order, key, count, relation, conditions);
    if (search == null) {
      return null;
    }
    search.put("more_keys", hasMoreKeys);
    Map<String, String> options = new HashMap<>(relation.options().asCaseSensitiveMap());
    options.put(Options.NEAREST, Options.json(search));
    options.put(
        Options.NEAREST_SHOWN, search.get("metric") + " of " + String.join(".", path(search)) + ", the first " + count);
    LogicalPlan found =
        relation.copy(
            relation.table(),
            relation.output(),
            relation.catalog(),
            relation.identifier(),
            new CaseInsensitiveStringMap(options),
            relation.timeTravelSpec());
    found = filter == null ? found : filter.copy(filter.condition(), found);
    for (int at = projects.size() - 1; at >= 0; at--) {
      found = projects.get(at).copy(projects.get(at).projectList(), found);
    }
    return found;
  }

  @SuppressWarnings("unchecked")
  private static List<String> path(Map<String, Object> search) {
    return (List<String>) search.get("column");
  }

  private static Map<String, Object> search(
      SortOrder order, Expression key, int count, DataSourceV2Relation relation, List<Expression> conditions) {
    Distance distance = Distance.of(key);
    if (distance == null || distance.ascends() != (order.direction() == Ascending$.MODULE$)) {
      return null;
    }
    Distance turned = Distance.column(Distance.uncast(distance.left())) == null ? distance.flipped() : distance;
    Expression column = Distance.uncast(turned.left());
    AttributeReference attribute = Distance.column(column);
    float[] query = Distance.numbers(turned.right());
    if (attribute == null || query == null || Scala.<AttributeReference>list(relation.output()).stream().noneMatch(each -> each.exprId().equals(attribute.exprId()))) {
      return null;
    }
    if (!SearchSettings.isVector(attribute, column, query.length)) {
      return null;
    }
    boolean known =
        !column.nullable()
            || conditions.stream().anyMatch(each -> each instanceof IsNotNull not && not.child().semanticEquals(column));
    Map<String, Object> search = new HashMap<>();
    search.put("column", Distance.path(column));
    search.put("query", query);
    search.put("k", count);
    search.put("metric", turned.metric());
    search.put("nulls_first", order.nullOrdering() == NullsFirst$.MODULE$);
    search.put("is_never_null", known);
    search.putAll(SearchSettings.chosen());
    return search;
  }

  /** Conditions that the scan tests; a search for texts would be another one. */
  private static boolean isPlain(Expression condition, LanceTable table) {
    return Misplaced.function(condition) == null && Misplaced.isTaken(condition, table);
  }

  private static void split(Expression condition, List<Expression> parts) {
    if (condition instanceof And both) {
      split(both.left(), parts);
      split(both.right(), parts);
    } else {
      parts.add(condition);
    }
  }

  /** What a sort key is below a projection: the key itself, or the expression that a name stands for. */
  private static Expression replaced(Expression key, Project project) {
    if (!(key instanceof AttributeReference attribute)) {
      return key;
    }
    for (NamedExpression each : Scala.<NamedExpression>list(project.projectList())) {
      if (each instanceof Alias alias && alias.exprId().equals(attribute.exprId())) {
        return alias.child();
      }
    }
    return key;
  }
}
