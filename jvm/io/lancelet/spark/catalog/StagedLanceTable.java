package io.lancelet.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancelet.spark.python.Ask;
import io.lancelet.spark.python.Details;
import io.lancelet.spark.read.Facts;
import io.lancelet.spark.read.LanceProvider;
import io.lancelet.spark.read.LanceTable;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;

/**
 * A table that a query makes or replaces. The commit of the write makes the new version, so that until then, and when the
 * query fails, an old table is as it was.
 */
final class StagedLanceTable extends LanceTable implements StagedTable {
  private final Asking python;
  private final String name;
  private final Map<String, Object> details;
  private final boolean declared;
  private boolean written;

  private StagedLanceTable(
      Asking python, Identifier ident, TableInfo info, Map<String, Object> details, JsonNode told) {
    super(
        new LanceProvider(),
        CatalogV2Util.v2ColumnsToStructType(info.columns()),
        Facts.NONE,
        LanceCatalog.texts(told.get(Details.OPTIONS)),
        info.properties());
    this.python = python;
    this.name = CatalogTable.shown(python, ident);
    this.details = details;
    this.declared = told.get(Details.DECLARED).asBoolean();
  }

  static StagedLanceTable of(
      Asking python, Identifier ident, TableInfo info, Map<String, Object> details, JsonNode told) {
    return new StagedLanceTable(python, ident, info, details, told);
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    written = true;
    return super.newWriteBuilder(info);
  }

  @Override
  public void commitStagedChanges() {
    if (!written) {
      Map<String, Object> staged = new HashMap<>(details);
      staged.put(Details.DECLARED, declared);
      python.ask(Ask.CREATE_TABLE, staged);
    }
  }

  @Override
  public void abortStagedChanges() {
    if (declared) {
      python.ask(Ask.ABANDON_TABLE, Map.of());
    }
  }
}
