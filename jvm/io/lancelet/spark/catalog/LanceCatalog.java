package io.lancelet.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancelet.spark.python.Ask;
import io.lancelet.spark.python.Details;
import io.lancelet.spark.python.Python;
import io.lancelet.spark.search.MatchFunction;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableContext;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Tables and namespaces by name and by path. All that a catalog does is done by Python; here is only what Spark wants to
 * hear of it.
 */
public class LanceCatalog implements StagingTableCatalog, SupportsNamespaces, ProcedureCatalog, FunctionCatalog {
  private static final String[] PROCEDURES = {"system"};
  private static final String CREATE = "create";
  private static final String REPLACE = "replace";
  private static final String CREATE_OR_REPLACE = "create_or_replace";

  /** Properties that are not those of a table like this one. */
  private static final Set<String> OF_ONE_TABLE =
      Set.of(
          TableCatalog.PROP_LOCATION,
          TableCatalog.PROP_EXTERNAL,
          TableCatalog.PROP_IS_MANAGED_LOCATION,
          TableCatalog.PROP_OWNER,
          TableCatalog.PROP_PROVIDER,
          TableCatalog.PROP_TABLE_TYPE);

  private String name;
  private Map<String, String> settings = Map.of();
  private Asking python;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    this.settings = Map.copyOf(options.asCaseSensitiveMap());
    this.python = Asking.about(name, settings);
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Set<TableCatalogCapability> capabilities() {
    return Set.of(TableCatalogCapability.SUPPORT_TABLE_CONSTRAINT, TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE);
  }

  // Namespaces

  @Override
  public String[][] listNamespaces() throws NoSuchNamespaceException {
    return listNamespaces(new String[0]);
  }

  @Override
  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    List<String[]> found = new ArrayList<>();
    for (JsonNode child : python.at(namespace).ask(Ask.LIST_NAMESPACES, Map.of())) {
      found.add(Python.JSON.convertValue(child, String[].class));
    }
    return found.toArray(new String[0][]);
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    return texts(python.at(namespace).ask(Ask.LOAD_NAMESPACE, Map.of()));
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> properties) {
    python.at(namespace).ask(Ask.CREATE_NAMESPACE, Map.of(Details.PROPERTIES, properties));
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) throws NoSuchNamespaceException {
    Map<String, String> set = new HashMap<>();
    List<String> removed = new ArrayList<>();
    for (NamespaceChange change : changes) {
      if (change instanceof NamespaceChange.SetProperty property) {
        set.put(property.property(), property.value());
      } else if (change instanceof NamespaceChange.RemoveProperty property) {
        removed.add(property.property());
      } else {
        throw new UnsupportedOperationException("a namespace cannot be changed in this way: " + change);
      }
    }
    python.at(namespace).ask(Ask.ALTER_NAMESPACE, Map.of(Details.PROPERTIES, set, Details.REMOVED, removed));
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade) throws NoSuchNamespaceException {
    return python.at(namespace).ask(Ask.DROP_NAMESPACE, Map.of(Details.CASCADE, cascade)).asBoolean();
  }

  // Tables

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    List<Identifier> found = new ArrayList<>();
    for (JsonNode table : python.at(namespace).ask(Ask.LIST_TABLES, Map.of())) {
      found.add(Identifier.of(namespace, table.asText()));
    }
    return found.toArray(new Identifier[0]);
  }

  @Override
  public Table loadTable(Identifier ident) throws NoSuchTableException {
    return loaded(ident, Map.of());
  }

  @Override
  public Table loadTable(Identifier ident, Set<TableWritePrivilege> privileges) throws NoSuchTableException {
    return loaded(ident, Map.of(Details.WRITES, givesValues(privileges)));
  }

  @Override
  public Table loadTable(Identifier ident, String version) throws NoSuchTableException {
    return loaded(ident, Map.of(Details.VERSION, version));
  }

  @Override
  public Table loadTable(Identifier ident, long timestamp) throws NoSuchTableException {
    return loaded(ident, Map.of(Details.TIMESTAMP, timestamp));
  }

  /** Options that choose what is loaded: another version, or blobs as their bytes. */
  @Override
  public Set<String> tableStateOptionKeys() {
    return CatalogTable.CHOICES;
  }

  @Override
  public Table loadTable(Identifier ident, TableContext context, CaseInsensitiveStringMap options)
      throws NoSuchTableException {
    Map<String, String> choices = new HashMap<>();
    CatalogTable.CHOICES.stream().filter(options::containsKey).forEach(key -> choices.put(key, options.get(key)));
    if (choices.isEmpty()) {
      return StagingTableCatalog.super.loadTable(ident, context, options);
    }
    if (context.timeTravel().isPresent()) {
      throw new IllegalArgumentException(
          "a version is chosen once: by " + context.timeTravel().get() + ", or by the options " + choices.keySet());
    }
    boolean givesValues = givesValues(context.writePrivileges());
    return loaded(ident, Map.of(Details.OPTIONS, choices, Details.WRITES, givesValues));
  }

  /** What versions did to the rows. */
  @Override
  public Changelog loadChangelog(Identifier ident, ChangelogContext context, CaseInsensitiveStringMap options) {
    Asking asking = python.of(ident);
    return LanceChangelog.of(asking, ident, asking.ask(Ask.LOAD_CHANGES, LanceChangelog.asked(context)));
  }

  private static boolean givesValues(Set<TableWritePrivilege> privileges) {
    return privileges.contains(TableWritePrivilege.INSERT) || privileges.contains(TableWritePrivilege.UPDATE);
  }

  private Table loaded(Identifier ident, Map<String, ?> details) {
    Asking asking = python.of(ident);
    JsonNode told = asking.ask(Ask.LOAD_TABLE, details);
    if (told.has(Details.RESULT)) {
      return new MetadataTable(asking, CatalogTable.shown(asking, ident), told, details);
    }
    Map<?, ?> choices = (Map<?, ?>) details.get(Details.OPTIONS);
    Set<String> chosen = new HashSet<>();
    if (choices != null) {
      choices.keySet().forEach(key -> chosen.add((String) key));
    }
    return CatalogTable.of(asking, ident, told).chosenBy(chosen);
  }

  @Override
  public Table createTable(Identifier ident, TableInfo info) {
    Asking asking = python.of(ident);
    return CatalogTable.of(asking, ident, asking.ask(Ask.CREATE_TABLE, Changes.ofTable(info, CREATE)));
  }

  /** Columns and properties are those of the other table, unless others are given. */
  @Override
  public Table createTableLike(Identifier ident, TableInfo info, Table source) {
    Map<String, String> properties = new HashMap<>(source.properties());
    properties.keySet().removeAll(OF_ONE_TABLE);
    properties.putAll(info.properties());
    TableInfo like =
        new TableInfo.Builder()
            .withColumns(source.columns())
            .withPartitions(source.partitioning())
            .withProperties(properties)
            .withConstraints(source.constraints())
            .build();
    return createTable(ident, like);
  }

  @Override
  public StagedTable stageCreate(Identifier ident, TableInfo info) {
    return staged(ident, info, CREATE);
  }

  @Override
  public StagedTable stageReplace(Identifier ident, TableInfo info) {
    return staged(ident, info, REPLACE);
  }

  @Override
  public StagedTable stageCreateOrReplace(Identifier ident, TableInfo info) {
    return staged(ident, info, CREATE_OR_REPLACE);
  }

  private StagedTable staged(Identifier ident, TableInfo info, String mode) {
    Asking asking = python.of(ident);
    Map<String, Object> details = Changes.ofTable(info, mode);
    return StagedLanceTable.of(asking, ident, info, details, asking.ask(Ask.STAGE_TABLE, details));
  }

  @Override
  public Table alterTable(Identifier ident, TableChange... changes) throws NoSuchTableException {
    Asking asking = python.of(ident);
    Map<String, ?> details = Map.of(Details.CHANGES, Changes.ofColumns(changes));
    return CatalogTable.of(asking, ident, asking.ask(Ask.ALTER_TABLE, details));
  }

  @Override
  public boolean dropTable(Identifier ident) {
    return python.of(ident).ask(Ask.DROP_TABLE, Map.of(Details.PURGE, false)).asBoolean();
  }

  @Override
  public boolean purgeTable(Identifier ident) {
    return python.of(ident).ask(Ask.DROP_TABLE, Map.of(Details.PURGE, true)).asBoolean();
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    Map<String, ?> target = Map.of(Details.TARGET_NAMESPACE, to.namespace(), Details.TARGET_NAME, to.name());
    python.of(from).ask(Ask.RENAME_TABLE, target);
  }

  // Procedures

  @Override
  public Identifier[] listProcedures(String[] namespace) {
    List<Identifier> found = new ArrayList<>();
    if (Arrays.equals(namespace, PROCEDURES)) {
      python.ask(Ask.LIST_PROCEDURES, Map.of()).forEach(each -> found.add(Identifier.of(namespace, each.asText())));
    }
    return found.toArray(new Identifier[0]);
  }

  @Override
  public UnboundProcedure loadProcedure(Identifier ident) {
    if (!Arrays.equals(ident.namespace(), PROCEDURES)) {
      return new UnknownProcedure(
          ident.name(), "procedures of the catalog " + name + " are in its namespace system: CALL " + name + ".system."
              + ident.name() + "(...)");
    }
    try {
      JsonNode told = python.ask(Ask.LOAD_PROCEDURE, Map.of(Details.PROCEDURE, ident.name()));
      return new LanceProcedure(python, name, ident.name(), told);
    } catch (IllegalArgumentException unknown) {
      return new UnknownProcedure(ident.name(), unknown.getMessage());
    }
  }

  // Functions

  @Override
  public Identifier[] listFunctions(String[] namespace) {
    if (namespace.length > 0) {
      return new Identifier[0];
    }
    return MatchFunction.ALL.keySet().stream()
        .map(each -> Identifier.of(namespace, each))
        .toArray(Identifier[]::new);
  }

  @Override
  public UnboundFunction loadFunction(Identifier ident) throws NoSuchFunctionException {
    String asked = ident.name().toLowerCase(java.util.Locale.ROOT);
    if (!MatchFunction.ALL.containsKey(asked)) {
      throw new NoSuchFunctionException(ident);
    }
    return new MatchFunction(asked);
  }

  static Map<String, String> texts(JsonNode answer) {
    Map<String, String> found = new HashMap<>();
    answer.fields().forEachRemaining(entry -> found.put(entry.getKey(), entry.getValue().asText()));
    return found;
  }
}
