package io.lancelet.spark.read;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table whose scans take what Spark pushes down; writes and streams are Spark's own. */
public class LanceTable extends PythonTable {
  private static final String STORAGE = "storage.";

  private final LanceProvider provider;
  private final StructType columns;
  private final Facts facts;
  private final Map<String, String> named;
  private final Map<String, String> properties;

  /** For a table in a catalog, {@code properties} are those that it has there, and {@code named} its options. */
  protected LanceTable(
      LanceProvider provider,
      StructType columns,
      Facts facts,
      Map<String, String> named,
      Map<String, String> properties) {
    super(provider, LanceProvider.NAME, columns);
    this.provider = provider;
    this.columns = columns;
    this.facts = facts;
    this.named = named;
    this.properties = properties;
  }

  @Override
  public Map<String, String> properties() {
    return properties;
  }

  /** The folder of the table or of its branch; null when it is not known. */
  public String uri() {
    return facts.uri() != null ? facts.uri() : provider.facts().uri();
  }

  /** Where a search finds the table: its folder, the version that was loaded, and options of the store, which a read may have. */
  public Map<String, Object> place(CaseInsensitiveStringMap options) {
    Map<String, String> all = withNamed(options).asCaseSensitiveMap();
    Facts known = facts.uri() != null ? facts : provider.facts();
    if (known.uri() == null) {
      provider.ownColumns(columns, all);
      known = provider.facts();
    }
    Map<String, String> store = new HashMap<>();
    for (Map.Entry<String, String> option : all.entrySet()) {
      if (option.getKey().startsWith(STORAGE)) {
        store.put(option.getKey().substring(STORAGE.length()), option.getValue());
      }
    }
    return Map.of("uri", known.uri(), "version", known.version(), "storage", store);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    CaseInsensitiveStringMap all = withNamed(options);
    if (facts.uri() != null) {
      return new LanceScanBuilder(columns, comparable(), all, facts);
    }
    StructType own = provider.ownColumns(columns, all.asCaseSensitiveMap());
    return new LanceScanBuilder(columns, own, all, provider.facts());
  }

  /** The columns that conditions on this table may be about. */
  protected StructType comparable() {
    return columns;
  }

  /** Whether a scan with some options can be a search: its options must not choose rows. */
  public boolean isSearchable(CaseInsensitiveStringMap options) {
    return LanceScanBuilder.readsAll(withNamed(options));
  }

  /** Whether scans of this table test a condition by themselves. */
  public boolean takes(Predicate condition) {
    return Conditions.translateForScan(condition, comparable()).isPresent();
  }

  /** A condition as Python reads it; nothing when Spark has to test it. */
  public Optional<List<Object>> translated(Predicate condition) {
    return Conditions.translate(condition, comparable());
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new LanceWriteBuilder(withNamed(info));
  }

  /** A write with the options that the table has in a catalog, too. */
  protected LogicalWriteInfo withNamed(LogicalWriteInfo info) {
    return new WriteInfo(info, withNamed(info.options()));
  }

  protected CaseInsensitiveStringMap withNamed(CaseInsensitiveStringMap options) {
    Map<String, String> all = new HashMap<>(named);
    // Names of options have no case.
    for (Map.Entry<String, String> entry : options.asCaseSensitiveMap().entrySet()) {
      all.keySet().removeIf(entry.getKey()::equalsIgnoreCase);
      all.put(entry.getKey(), entry.getValue());
    }
    all.put("lance.caseSensitive", Boolean.toString(SQLConf.get().caseSensitiveAnalysis()));
    return new CaseInsensitiveStringMap(all);
  }
}
