package io.lancelet.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancelet.spark.python.Ask;
import io.lancelet.spark.python.Details;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table about a table, such as {@code t.history}. */
final class MetadataTable implements SupportsRead {
  private final Asking python;
  private final String name;
  private final StructType columns;
  private final Map<String, ?> details;

  /** {@code details} are those that the table was asked for with. */
  MetadataTable(Asking python, String name, JsonNode told, Map<String, ?> details) {
    this.python = python;
    this.name = name;
    this.columns = StructType.fromDDL(told.get(Details.RESULT).asText());
    this.details = details;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  @SuppressWarnings("deprecation")
  public StructType schema() {
    return columns;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return EnumSet.of(TableCapability.BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return () -> Records.of(columns, python.ask(Ask.READ_METADATA, details));
  }
}
