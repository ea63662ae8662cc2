package io.lancelet.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancelet.spark.python.Ask;
import io.lancelet.spark.python.Details;
import io.lancelet.spark.read.Facts;
import io.lancelet.spark.read.LanceProvider;
import io.lancelet.spark.read.LanceTable;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsSchemaEvolution;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table of a catalog at one version: its columns and facts were told when it was loaded. */
public class CatalogTable extends LanceTable implements SupportsMetadataColumns, SupportsSchemaEvolution, TruncatableTable {
  /** Options that choose what is loaded; who scans or writes the table has it as they say. */
  static final Set<String> CHOICES = Set.of("version", "tag", "branch", "asOf", "blobHandling", "blob_mode");

  private static final List<String> LOOKED_UP = List.of("_rowid", "_rowaddr");

  private final Asking python;
  private final String name;
  private final Facts facts;
  private final boolean readOnly;
  private final MetadataColumn[] metadataColumns;
  private final Constraint[] constraints;

  CatalogTable(
      Asking python,
      String name,
      StructType columns,
      Facts facts,
      Map<String, String> options,
      Map<String, String> properties,
      boolean readOnly,
      MetadataColumn[] metadataColumns,
      Constraint[] constraints) {
    super(new LanceProvider(), columns, facts, options, properties);
    this.python = python;
    this.name = name;
    this.facts = facts;
    this.readOnly = readOnly;
    this.metadataColumns = metadataColumns;
    this.constraints = constraints;
  }

  /** The table that Python tells of. */
  static CatalogTable of(Asking python, Identifier ident, JsonNode told) {
    Facts facts =
        new Facts(
            told.get(Details.URI).asText(),
            told.get(Details.VERSION).asLong(),
            told.get(Details.ROWS).asLong(),
            told.get(Details.BYTES).asLong(),
            true);
    return new CatalogTable(
        python,
        shown(python, ident),
        columns(told.get(Details.COLUMNS)),
        facts,
        LanceCatalog.texts(told.get(Details.OPTIONS)),
        LanceCatalog.texts(told.get(Details.PROPERTIES)),
        told.get(Details.READ_ONLY).asBoolean(),
        metadataColumns(told.get(Details.METADATA_COLUMNS)),
        constraints(told.get(Details.PRIMARY_KEY)));
  }

  static String shown(Asking python, Identifier ident) {
    List<String> parts = new ArrayList<>(List.of(python.identifier().namespace()));
    parts.add(ident.name());
    return String.join(".", parts);
  }

  static StructType columns(JsonNode told) {
    return (StructType) DataType.fromJson(told.toString());
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String version() {
    return Long.toString(facts.version());
  }

  /** What was known of the table when it was loaded: where it is, and which version. */
  public Facts facts() {
    return facts;
  }

  /** Questions about this table. */
  public Asking python() {
    return python;
  }

  @Override
  public Set<TableCapability> capabilities() {
    if (readOnly) {
      return EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ);
    }
    Set<TableCapability> all = new HashSet<>(super.capabilities());
    all.add(TableCapability.OVERWRITE_DYNAMIC);
    all.add(TableCapability.OVERWRITE_BY_FILTER);
    all.add(TableCapability.AUTOMATIC_SCHEMA_EVOLUTION);
    return all;
  }

  @Override
  protected CaseInsensitiveStringMap withNamed(CaseInsensitiveStringMap options) {
    Map<String, String> others = new HashMap<>(options.asCaseSensitiveMap());
    others.keySet().removeIf(key -> CHOICES.stream().anyMatch(key::equalsIgnoreCase));
    return super.withNamed(new CaseInsensitiveStringMap(others));
  }

  /** Rows are found by their ids and addresses, too. */
  @Override
  protected StructType comparable() {
    StructType all = schema();
    for (MetadataColumn column : metadataColumns) {
      if (LOOKED_UP.contains(column.name())) {
        all = all.add(column.name(), column.dataType(), column.isNullable());
      }
    }
    return all;
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new CatalogWriteBuilder(withNamed(info), schema());
  }

  /** INSERT and MERGE WITH SCHEMA EVOLUTION may do what ALTER TABLE does. */
  @Override
  public boolean supportsColumnChange(TableChange.ColumnChange change) {
    if (change instanceof TableChange.UpdateColumnType retyped) {
      return widens(retyped);
    }
    return change instanceof TableChange.AddColumn;
  }

  /** Rows with a narrower type are cast as they are inserted; the table is not to become narrower. */
  private boolean widens(TableChange.UpdateColumnType retyped) {
    DataType own = schema();
    for (String name : retyped.fieldNames()) {
      if (!(own instanceof StructType struct) || struct.getFieldIndex(name).isEmpty()) {
        return false;
      }
      own = struct.apply(name).dataType();
    }
    return Cast.canUpCast(own, retyped.newDataType());
  }

  @Override
  public String toString() {
    return name;
  }

  @Override
  public MetadataColumn[] metadataColumns() {
    return metadataColumns;
  }

  /** A column of the table that has such a name is the one that is meant. */
  @Override
  public boolean canRenameConflictingMetadataColumns() {
    return false;
  }

  @Override
  public boolean truncateTable() {
    python.ask(Ask.TRUNCATE_TABLE, Map.of());
    return true;
  }

  @Override
  public Constraint[] constraints() {
    return constraints;
  }

  private static Constraint[] constraints(JsonNode key) {
    if (key.isEmpty()) {
      return new Constraint[0];
    }
    List<NamedReference> columns = new ArrayList<>();
    key.forEach(column -> columns.add(FieldReference.column(column.asText())));
    return new Constraint[] {
      Constraint.primaryKey("primary_key", columns.toArray(new NamedReference[0])).enforced(false).build()
    };
  }

  private static MetadataColumn[] metadataColumns(JsonNode told) {
    List<MetadataColumn> found = new ArrayList<>();
    for (StructField field : columns(told).fields()) {
      found.add(new SystemColumn(field.name(), field.dataType(), field.nullable(), field.getComment().getOrElse(() -> "")));
    }
    return found.toArray(new MetadataColumn[0]);
  }

  /** A column that every table has. */
  private record SystemColumn(String name, DataType dataType, boolean isNullable, String comment)
      implements MetadataColumn {}
}
