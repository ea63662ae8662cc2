package io.lancelet.spark.read;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's own scan of a Python source, which also knows how large the table is, and takes what joins find out. */
public final class LanceScan extends PythonScan implements SupportsReportStatistics, SupportsRuntimeV2Filtering {
  /** Values that a join found, written out; more are not handed to every task. */
  private static final int MOST_RUNTIME = 1 << 20;

  private final StructType columns;
  private final StructType own;
  private final Map<String, String> handed;
  private final Facts facts;
  private final Statistics statistics;
  private final String shown;
  private final int limit;
  private final boolean columnar = LanceBatch.tasksHaveJar();

  /** Python plans once for a batch: Spark asks for that of a scan several times. */
  private Batch batch;

  private String runtime;

  LanceScan(
      StructType columns,
      StructType own,
      Map<String, String> handed,
      Facts facts,
      Statistics statistics,
      String shown,
      int limit) {
    super(LanceProvider.freshSource(), LanceProvider.NAME, columns, new CaseInsensitiveStringMap(handed), new Filter[0]);
    this.columns = columns;
    this.own = own;
    this.handed = handed;
    this.facts = facts;
    this.statistics = statistics;
    this.shown = shown;
    this.limit = limit;
  }

  @Override
  public Batch toBatch() {
    if (batch == null) {
      Map<String, String> all = new HashMap<>(handed);
      if (runtime != null) {
        all.put(Options.RUNTIME, runtime);
      }
      CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(all);
      batch = columnar ? new LanceBatch(columns, options, limit) : ofRows(options);
    }
    return batch;
  }

  private Batch ofRows(CaseInsensitiveStringMap options) {
    return new PythonScan(LanceProvider.freshSource(), LanceProvider.NAME, columns, options, new Filter[0]).toBatch();
  }

  /** Streams are read by Spark's own readers, which give rows: so the readers are asked. */
  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return columnar ? ColumnarSupportMode.PARTITION_DEFINED : ColumnarSupportMode.UNSUPPORTED;
  }

  @Override
  public String description() {
    return shown;
  }

  @Override
  public Statistics estimateStatistics() {
    return statistics;
  }

  /** Whether these are all rows of one version that its conditions let through, which never change. */
  public boolean isPinned() {
    return facts.uri() != null && facts.rows() >= 0 && limit < 0 && !handed.containsKey(Options.NEAREST);
  }

  /** Columns of which an index tells at once where some values are. */
  @Override
  public NamedReference[] filterAttributes() {
    boolean isWhole = facts.pushes() && limit < 0 && !handed.containsKey(Options.NEAREST);
    return Arrays.stream(columns.fieldNames())
        .filter(name -> isWhole && facts.indexed().contains(name))
        .map(name -> Expressions.column("`" + name.replace("`", "``") + "`"))
        .filter(column -> Conditions.isComparable(column, own))
        .toArray(NamedReference[]::new);
  }

  /** Takes the values that the other side of a join has; the join tests them again. */
  @Override
  public void filter(Predicate[] predicates) {
    List<Object> conditions = new ArrayList<>();
    for (Predicate predicate : predicates) {
      Conditions.translate(predicate, own).ifPresent(conditions::add);
    }
    String text = conditions.isEmpty() ? null : Conditions.toJson(conditions);
    runtime = text != null && text.length() <= MOST_RUNTIME ? text : null;
    batch = null;
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    List<CustomMetric> all = new ArrayList<>(Arrays.asList(super.supportedCustomMetrics()));
    all.addAll(Metrics.all());
    return all.toArray(new CustomMetric[0]);
  }
}
