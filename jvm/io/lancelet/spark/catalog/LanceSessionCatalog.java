package io.lancelet.spark.catalog;

import io.lancelet.spark.read.LanceProvider;
import java.net.URI;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's own catalog, in which Lance tables can do what they can in a catalog of ours: it keeps their names and places
 * beside those of all other tables, and everything else is done by path.
 */
public class LanceSessionCatalog extends DelegatingCatalogExtension {
  private final LanceCatalog byPath = new LanceCatalog();

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    super.initialize(name, options);
    byPath.initialize(name, CaseInsensitiveStringMap.empty());
  }

  @Override
  public Table loadTable(Identifier ident) throws NoSuchTableException {
    return loadTable(ident, Set.of());
  }

  @Override
  public Table loadTable(Identifier ident, Set<TableWritePrivilege> privileges) throws NoSuchTableException {
    Table table = super.loadTable(ident);
    Identifier path = path(table);
    try {
      return path == null ? table : byPath.loadTable(path, privileges);
    } catch (NoSuchTableException gone) {
      // The name can still be dropped.
      return table;
    }
  }

  @Override
  public Table loadTable(Identifier ident, String version) throws NoSuchTableException {
    Identifier path = path(super.loadTable(ident));
    return path == null ? super.loadTable(ident, version) : byPath.loadTable(path, version);
  }

  @Override
  public Table loadTable(Identifier ident, long timestamp) throws NoSuchTableException {
    Identifier path = path(super.loadTable(ident));
    return path == null ? super.loadTable(ident, timestamp) : byPath.loadTable(path, timestamp);
  }

  @Override
  public Changelog loadChangelog(Identifier ident, ChangelogContext context, CaseInsensitiveStringMap options)
      throws NoSuchTableException {
    Identifier path = path(super.loadTable(ident));
    return path == null
        ? super.loadChangelog(ident, context, options)
        : byPath.loadChangelog(path, context, options);
  }

  /** A table with columns of its own is there at once, without rows. */
  @Override
  public Table createTable(Identifier ident, TableInfo info)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    super.createTable(ident, info.columns(), info.partitions(), info.properties());
    boolean isThere = false;
    try {
      Identifier path = path(super.loadTable(ident));
      boolean isKnown = path == null || byPath.tableExists(path);
      Table table = isKnown ? loadTable(ident) : byPath.createTable(path, withoutPlace(info));
      isThere = true;
      return table;
    } catch (NoSuchTableException gone) {
      throw new IllegalStateException("somebody dropped the table " + ident + " as it was made", gone);
    } finally {
      // Of Spark's errors, some are checked ones that nobody declares.
      if (!isThere) {
        super.dropTable(ident);
      }
    }
  }

  @Override
  public Table alterTable(Identifier ident, TableChange... changes) throws NoSuchTableException {
    Identifier path = path(super.loadTable(ident));
    return path == null ? super.alterTable(ident, changes) : byPath.alterTable(path, changes);
  }

  /** Where a Lance table is; null for others. */
  private static Identifier path(Table table) {
    if (!(table instanceof V1Table named) || !named.catalogTable().provider().contains(LanceProvider.NAME)) {
      return null;
    }
    URI place = named.catalogTable().location();
    boolean local = place.getScheme() == null || place.getScheme().equals("file");
    return Identifier.of(new String[0], local ? place.getPath() : place.toString());
  }

  private static TableInfo withoutPlace(TableInfo info) {
    Map<String, String> properties = new HashMap<>(info.properties());
    properties.remove(TableCatalog.PROP_LOCATION);
    properties.keySet().removeIf(key -> key.startsWith(TableCatalog.OPTION_PREFIX));
    return new TableInfo.Builder()
        .withColumns(info.columns())
        .withPartitions(info.partitions())
        .withProperties(properties)
        .withConstraints(info.constraints())
        .build();
  }
}
