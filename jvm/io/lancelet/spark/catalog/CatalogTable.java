package io.lancelet.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancelet.spark.python.Ask;
import io.lancelet.spark.python.Details;
import io.lancelet.spark.python.Python;
import io.lancelet.spark.read.Conditions;
import io.lancelet.spark.read.Facts;
import io.lancelet.spark.read.LanceProvider;
import io.lancelet.spark.read.LanceTable;
import io.lancelet.spark.rowlevel.RowChange;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsSchemaEvolution;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/** A table of a catalog at one version: its columns and facts were told when it was loaded. */
public class CatalogTable extends LanceTable
    implements SupportsMetadataColumns, SupportsSchemaEvolution, SupportsRowLevelOperations, SupportsDeleteV2 {
  /** Options that choose what is loaded; who scans or writes the table has it as they say. */
  static final Set<String> CHOICES = Set.of("version", "tag", "branch", "asOf", "blobHandling", "blob_mode");

  private static final List<String> LOOKED_UP = List.of("_rowid", "_rowaddr");

  /** Rows of a table through which one process looks sooner than Spark has begun a job. */
  private static final long DELETED_AT_ONCE = 4_000_000;

  private final Asking python;
  private final String name;
  private final Facts facts;
  private final boolean readOnly;
  private final MetadataColumn[] metadataColumns;
  private final Constraint[] constraints;
  private Set<String> chosen = Set.of();

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
            List.of(Python.JSON.convertValue(told.get(Details.INDEXED), String[].class)),
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

  /** The same table, which was loaded as these options choose. */
  CatalogTable chosenBy(Set<String> options) {
    chosen = Set.copyOf(options);
    return this;
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
    for (String choice : CHOICES) {
      if (others.keySet().removeIf(choice::equalsIgnoreCase) && !chosen.contains(choice)) {
        throw new IllegalArgumentException(
            "this Spark (one before 4.3) loads a table without the option '" + choice
                + "'; write VERSION AS OF, or the name of a branch or tag: " + name + ".branch_x");
      }
    }
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
    checkWritable();
    python.ask(Ask.TRUNCATE_TABLE, Map.of(Details.OPTIONS, ownOptions()));
    return true;
  }

  /** Whether Python finds the rows by itself, without a job: what it compares as Spark does, in a table that is not large. */
  @Override
  public boolean canDeleteWhere(Predicate[] predicates) {
    boolean isSmall = facts.rows() >= 0 && facts.rows() <= DELETED_AT_ONCE;
    return areAll(predicates) || (!readOnly && isSmall && conditions(predicates).isPresent());
  }

  /** Whether all rows are meant. */
  private static boolean areAll(Predicate[] predicates) {
    return Arrays.stream(predicates).allMatch(predicate -> predicate.name().equals("ALWAYS_TRUE"));
  }

  @Override
  public void deleteWhere(Predicate[] predicates) {
    if (areAll(predicates)) {
      truncateTable();
      return;
    }
    String conditions = Conditions.toJson(conditions(predicates).orElseThrow());
    Map<String, ?> details =
        Map.of(Details.OPTIONS, ownOptions(), Details.CONDITIONS, conditions, Details.PREDICATE, shown(predicates));
    python.ask(Ask.DELETE_ROWS, details);
  }

  private Optional<List<Object>> conditions(Predicate[] predicates) {
    List<Object> all = new ArrayList<>();
    for (Predicate predicate : predicates) {
      Optional<List<Object>> translated = Conditions.translate(predicate, comparable());
      if (translated.isEmpty()) {
        return Optional.empty();
      }
      all.add(translated.get());
    }
    return Optional.of(all);
  }

  private static String shown(Predicate[] predicates) {
    return Arrays.stream(predicates).map(Predicate::describe).collect(Collectors.joining(" AND "));
  }

  private Map<String, String> ownOptions() {
    return withNamed(CaseInsensitiveStringMap.empty()).asCaseSensitiveMap();
  }

  private void checkWritable() {
    if (readOnly) {
      throw new UnsupportedOperationException(
          name + " is a table as it was once; rows are changed in its newest version, or in a branch");
    }
  }

  @Override
  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    checkWritable();
    Map<String, String> options = withNamed(info.options()).asCaseSensitiveMap();
    return () -> new RowChange(this, facts, options, info.command());
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
    for (JsonNode path : key) {
      List<String> names = new ArrayList<>();
      path.forEach(name -> names.add(name.asText()));
      columns.add(new FieldReference(CollectionConverters.asScala(names).toList()));
    }
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
