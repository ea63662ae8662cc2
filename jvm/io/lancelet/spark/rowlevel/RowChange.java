package io.lancelet.spark.rowlevel;

import io.lancelet.spark.read.Facts;
import io.lancelet.spark.read.LanceTable;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A DELETE, UPDATE or MERGE: rows are known by their addresses. Spark plans it with this, and {@link RowChanges} makes a write
 * of the plan that leaves out what the statement does not assign.
 */
public final class RowChange implements SupportsDelta {
  static final String ADDRESS = "_rowaddr";

  private final LanceTable table;
  private final Facts facts;
  private final Map<String, String> options;
  private final Command command;

  /** Of the version that the {@code facts} tell of. */
  public RowChange(LanceTable table, Facts facts, Map<String, String> options, Command command) {
    if (Arrays.asList(table.schema().fieldNames()).contains(ADDRESS)) {
      throw new UnsupportedOperationException(
          "the table has a column '" + ADDRESS + "', which hides the addresses of its rows; rename it");
    }
    this.table = table;
    this.facts = facts;
    this.options = options;
    this.command = command;
  }

  static RowChange of(SupportsRowLevelOperations table, Command command, CaseInsensitiveStringMap options) {
    RowLevelOperationInfo info =
        new RowLevelOperationInfo() {
          @Override
          public CaseInsensitiveStringMap options() {
            return options;
          }

          @Override
          public Command command() {
            return command;
          }
        };
    return (RowChange) table.newRowLevelOperationBuilder(info).build();
  }

  @Override
  public Command command() {
    return command;
  }

  @Override
  public String description() {
    return "lance " + command;
  }

  LanceTable table() {
    return table;
  }

  String uri() {
    return facts.uri();
  }

  /** What Python is told with the changes: where they go, and which version they are about. */
  Map<String, String> options() {
    Map<String, String> all = new HashMap<>(options);
    all.put("lance.uri", facts.uri());
    all.put("lance.version", Long.toString(facts.version()));
    return all;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
    return table.newScanBuilder(given);
  }

  @Override
  public NamedReference[] rowId() {
    return new NamedReference[] {FieldReference.column(ADDRESS)};
  }

  @Override
  public boolean representUpdateAsDeleteAndInsert() {
    return false;
  }

  /** Spark asks for this when nobody has rewritten its plan. */
  @Override
  public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    throw new UnsupportedOperationException(
        "the rows of a Lance table are changed by statements only in a session with the setting"
            + " spark.sql.extensions=io.lancelet.spark.sql.LanceExtensions; lancelet.spark.configure(builder) adds it");
  }
}
