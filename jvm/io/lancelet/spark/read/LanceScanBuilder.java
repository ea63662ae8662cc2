package io.lancelet.spark.read;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownOffset;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownTableSample;
import org.apache.spark.sql.connector.read.SupportsPushDownTopN;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Collects what Spark needs of a scan, and hands it to the Python source: columns as the schema of the scan, the rest as
 * options. What is not understood is left to Spark.
 */
final class LanceScanBuilder
    implements SupportsPushDownRequiredColumns,
        SupportsPushDownV2Filters,
        SupportsPushDownTableSample,
        SupportsPushDownLimit,
        SupportsPushDownOffset,
        SupportsPushDownTopN,
        SupportsPushDownAggregates {
  private static final String SCORE = "_score";
  private static final String LIMIT = "limit";

  /** Options of users that choose rows: then nothing is known of all of them, and only conditions and limits are pushed down. */
  private static final List<String> CHOOSING = List.of("filter", LIMIT, "memWal");

  /** More rows than so many are sorted by Spark alone: a task would hold them all. */
  private static final int MOST_SORTED = 1 << 16;

  private final StructType columns;
  private final StructType own;
  private final CaseInsensitiveStringMap options;
  private final Facts facts;
  private final List<Predicate> pushed = new ArrayList<>();
  private final List<Object> conditions = new ArrayList<>();
  private final List<Object> order = new ArrayList<>();
  private StructType wanted;
  private String sample;
  private int limit = -1;
  private int offset = 0;
  private boolean exact = false;
  private AnswerScan answer;

  /** {@code own} are the columns as the table has them: only they tell which values mean the same here and there. */
  LanceScanBuilder(StructType columns, StructType own, CaseInsensitiveStringMap options, Facts facts) {
    this.columns = columns;
    this.own = own;
    this.wanted = columns;
    this.options = options;
    boolean isWhole = readsAll(options);
    boolean pushes = facts.pushes() && !options.containsKey(LIMIT);
    this.facts =
        isWhole ? facts : new Facts(facts.uri(), facts.version(), -1, facts.bytes(), facts.indexed(), pushes);
  }

  /** Whether options leave it to conditions which rows are read. */
  static boolean readsAll(CaseInsensitiveStringMap options) {
    return CHOOSING.stream().noneMatch(options::containsKey);
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
          !facts.pushes()
              ? Optional.empty()
              : facts.rows() < 0 ? Conditions.translate(predicate, own) : Conditions.translateForScan(predicate, own);
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

  /** Rows by chance: whether a row is among them depends on its place and the seed alone. */
  @Override
  public boolean pushTableSample(double lower, double upper, boolean withReplacement, long seed) {
    if (withReplacement || !facts.pushes() || facts.rows() < 0 || isSearch()) {
      return false;
    }
    sample = lower + "," + upper + "," + seed;
    return true;
  }

  /**
   * Every task gives at most so many rows, and Spark takes the first of all tasks together. Where the table tells how many rows
   * its fragments have, it is known which tasks have them.
   */
  @Override
  public boolean pushLimit(int rows) {
    if (facts.pushes()) {
      limit = rows;
      exact = facts.rows() >= 0 && conditions.isEmpty() && sample == null && !isSearch();
    }
    return facts.pushes();
  }

  /** The first rows of what a limit leaves are passed over. */
  @Override
  public boolean pushOffset(int rows) {
    if (exact) {
      offset = rows;
    }
    return exact;
  }

  /** Every task gives its first rows in an order; Spark sorts what all of them give. Samples are drawn without one. */
  @Override
  public boolean pushTopN(SortOrder[] orders, int rows) {
    if (!facts.pushes() || facts.rows() < 0 || rows > MOST_SORTED || sample != null || isSearch() || hasMatch()) {
      return false;
    }
    List<Object> keys = new ArrayList<>();
    for (SortOrder each : orders) {
      if (!(each.expression() instanceof NamedReference column) || !Conditions.isComparable(column, own)) {
        return false;
      }
      boolean ascending = each.direction() == SortDirection.ASCENDING;
      keys.add(List.of(List.of(column.fieldNames()), ascending, each.nullOrdering() == NullOrdering.NULLS_FIRST));
    }
    order.addAll(keys);
    limit = rows;
    return true;
  }

  @Override
  public boolean isPartiallyPushed() {
    return !exact;
  }

  @Override
  public boolean supportCompletePushDown(Aggregation aggregation) {
    return answered(aggregation) != null;
  }

  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    answer = answered(aggregation);
    return answer != null;
  }

  /** What metadata and indices tell about the whole table; null when rows have to be read. */
  private AnswerScan answered(Aggregation aggregation) {
    AggregateFunc[] functions = aggregation.aggregateExpressions();
    boolean isWhole = functions.length > 0 && aggregation.groupByExpressions().length == 0 && sample == null;
    if (!isWhole || facts.rows() < 0 || isSearch()) {
      return null;
    }
    if (conditions.isEmpty() && Arrays.stream(functions).allMatch(CountStar.class::isInstance)) {
      Object[] counts = new Object[functions.length];
      DataType[] types = new DataType[functions.length];
      Arrays.fill(counts, facts.rows());
      Arrays.fill(types, DataTypes.LongType);
      return new AnswerScan(counts, types, facts.rows());
    }
    return Aggregates.answered(functions, conditions, own, facts, this::handed);
  }

  /** Whether a rule has made a search of this scan. */
  private boolean isSearch() {
    return options.containsKey(Options.NEAREST) && facts.pushes() && facts.rows() >= 0;
  }

  private boolean hasMatch() {
    return conditions.stream().anyMatch(condition -> Conditions.hasMatch((List<?>) condition));
  }

  @Override
  public Scan build() {
    boolean isScored = conditions.stream().anyMatch(condition -> "match".equals(((List<?>) condition).get(0)));
    if (wanted.getFieldIndex(SCORE).isDefined() && columns.getFieldIndex(SCORE).isEmpty() && !isScored) {
      throw new IllegalArgumentException(
          "_score tells how well texts match; it goes with one condition on them, such as WHERE lance_match(text, 'words'),"
              + " that is not under OR or NOT. A NEAREST join that wants one hidden column of a table reads all of them: name what"
              + " it needs, as in JOIN (SELECT id, v, _rowid FROM t)");
    }
    if (answer != null) {
      return answer;
    }
    Map<String, String> handed = handed();
    if (limit >= 0) {
      handed.put(Options.LIMIT, Integer.toString(limit));
    }
    if (exact) {
      handed.put(Options.OFFSET, Integer.toString(offset));
    }
    if (!order.isEmpty()) {
      handed.put(Options.ORDER, Options.json(order));
    }
    return new LanceScan(wanted, own, handed, facts, new Estimates(facts, columns, wanted, conditions, limit, handed), shown(), limit);
  }

  private Map<String, String> handed() {
    Map<String, String> handed = new HashMap<>(options.asCaseSensitiveMap());
    if (!isSearch()) {
      handed.keySet().removeAll(List.of(Options.NEAREST, Options.NEAREST_SHOWN));
    }
    if (facts.uri() != null) {
      handed.put(Options.URI, facts.uri());
      handed.put(Options.VERSION, Long.toString(facts.version()));
    }
    int tasks = SparkSession.active().sparkContext().defaultParallelism();
    handed.put(Options.PARALLELISM, Integer.toString(tasks));
    if (!conditions.isEmpty()) {
      handed.put(Options.PREDICATES, Conditions.toJson(conditions));
    }
    if (sample != null) {
      handed.put(Options.SAMPLE, sample);
    }
    return handed;
  }

  private String shown() {
    StringBuilder text = new StringBuilder("lance columns=" + Arrays.toString(wanted.fieldNames()) + " pushed=" + pushed);
    if (limit >= 0) {
      text.append(" limit=").append(limit);
    }
    if (offset > 0) {
      text.append(" offset=").append(offset);
    }
    if (!order.isEmpty()) {
      text.append(" order=").append(order);
    }
    if (sample != null) {
      text.append(" sample=").append(sample);
    }
    if (isSearch()) {
      text.append(" nearest=").append(options.get(Options.NEAREST_SHOWN));
    }
    return text.toString();
  }
}
