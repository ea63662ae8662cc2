package io.lancelet.spark.read;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Collects what Spark needs of a scan, and hands it to the Python source: columns as the schema of the scan, the rest as
 * options. What is not understood is left to Spark.
 */
final class LanceScanBuilder
    implements SupportsPushDownRequiredColumns,
        SupportsPushDownV2Filters,
        SupportsPushDownLimit,
        SupportsPushDownAggregates {
  private final StructType columns;
  private final StructType own;
  private final CaseInsensitiveStringMap options;
  private final Facts facts;
  private final List<Predicate> pushed = new ArrayList<>();
  private final List<Object> conditions = new ArrayList<>();
  private StructType wanted;
  private int limit = -1;
  private int counts = 0;

  /** {@code own} are the columns as the table has them: only they tell which values mean the same here and there. */
  LanceScanBuilder(StructType columns, StructType own, CaseInsensitiveStringMap options, Facts facts) {
    this.columns = columns;
    this.own = own;
    this.wanted = columns;
    this.options = options;
    this.facts = facts;
  }

  @Override
  public void pruneColumns(StructType required) {
    wanted = required;
  }

  /** Takes the conditions that mean the same in Lance, and returns the others. */
  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    List<Predicate> left = new ArrayList<>();
    for (Predicate predicate : predicates) {
      Optional<List<Object>> translated =
          facts.pushes() ? Conditions.translate(predicate, own) : Optional.empty();
      if (translated.isPresent()) {
        pushed.add(predicate);
        conditions.add(translated.get());
      } else {
        left.add(predicate);
      }
    }
    return left.toArray(new Predicate[0]);
  }

  @Override
  public Predicate[] pushedPredicates() {
    return pushed.toArray(new Predicate[0]);
  }

  /** Every task gives at most so many rows; Spark takes the first of all tasks together. */
  @Override
  public boolean pushLimit(int rows) {
    if (facts.pushes()) {
      limit = rows;
    }
    return facts.pushes();
  }

  @Override
  public boolean isPartiallyPushed() {
    return true;
  }

  @Override
  public boolean supportCompletePushDown(Aggregation aggregation) {
    return countsRows(aggregation);
  }

  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    if (countsRows(aggregation)) {
      counts = aggregation.aggregateExpressions().length;
    }
    return counts > 0;
  }

  /** Whether the number of rows in the table is all that is asked for. */
  private boolean countsRows(Aggregation aggregation) {
    if (facts.rows() < 0 || !pushed.isEmpty() || aggregation.groupByExpressions().length > 0) {
      return false;
    }
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      if (!(function instanceof CountStar)) {
        return false;
      }
    }
    return aggregation.aggregateExpressions().length > 0;
  }

  @Override
  public Scan build() {
    if (counts > 0) {
      return new CountScan(facts.rows(), counts);
    }
    Map<String, String> handed = new HashMap<>(options.asCaseSensitiveMap());
    if (facts.uri() != null) {
      handed.put("lance.uri", facts.uri());
      handed.put("lance.version", Long.toString(facts.version()));
    }
    int tasks = SparkSession.active().sparkContext().defaultParallelism();
    handed.put("lance.parallelism", Integer.toString(tasks));
    if (!conditions.isEmpty()) {
      handed.put("lance.predicates", Conditions.toJson(conditions));
    }
    if (limit >= 0) {
      handed.put("lance.limit", Integer.toString(limit));
    }
    long rows = pushed.isEmpty() ? facts.rows() : -1;
    long bytes = facts.bytes() < 0 ? -1 : facts.bytes() * wanted.size() / Math.max(1, columns.size());
    return new LanceScan(
        LanceProvider.freshSource(), wanted, new CaseInsensitiveStringMap(handed), rows, bytes, pushed, limit);
  }
}
