package io.lancelet.spark.sql;

import io.lancelet.spark.catalog.CatalogTable;
import io.lancelet.spark.catalog.LanceCatalog;
import io.lancelet.spark.catalog.LanceSessionCatalog;
import io.lancelet.spark.sql.Sentence.Other;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;

/** Which table of ours a name means. */
final class Names {
  /** The catalog that knows tables by their paths. */
  private static final String PATHS = "lance";

  private Names() {}

  /** A name with all its parts, that of the catalog first, if the catalog is one of ours. */
  static List<String> own(List<String> name, SparkSession session) throws Other {
    CatalogManager catalogs =
        ((org.apache.spark.sql.classic.SparkSession) session).sessionState().catalogManager();
    boolean named = name.size() > 1 && catalogs.isCatalogRegistered(name.get(0));
    CatalogPlugin catalog = named ? catalogs.catalog(name.get(0)) : catalogs.currentCatalog();
    List<String> all = new ArrayList<>(named ? List.of() : List.of(catalog.name()));
    if (name.size() == 1) {
      all.addAll(Arrays.asList(catalogs.currentNamespace()));
    }
    all.addAll(name);
    return catalog instanceof LanceCatalog ? all : byPath(catalogs, catalog, all);
  }

  /** A table of ours in Spark's own catalog, by its path. */
  private static List<String> byPath(CatalogManager catalogs, CatalogPlugin catalog, List<String> name) throws Other {
    if (!(catalog instanceof LanceSessionCatalog own)
        || !catalogs.isCatalogRegistered(PATHS)
        || !(catalogs.catalog(PATHS) instanceof LanceCatalog)) {
      throw new Other();
    }
    int last = name.size() - 1;
    try {
      Identifier ident = Identifier.of(name.subList(1, last).toArray(new String[0]), name.get(last));
      if (own.loadTable(ident) instanceof CatalogTable table) {
        return new ArrayList<>(List.of(PATHS, table.facts().uri()));
      }
    } catch (NoSuchTableException none) {
      throw new Other();
    }
    throw new Other();
  }
}
