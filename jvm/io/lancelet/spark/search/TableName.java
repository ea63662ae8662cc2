package io.lancelet.spark.search;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;

/** A table by its name in a text. */
final class TableName {
  private TableName() {}

  /** Whether a text is the place of a table, and no name: names have slashes in backticks only. */
  static boolean isPath(String text) {
    return text.contains("/") && !text.contains("`");
  }

  /** The table; the catalog comes first in its name, unless it is the current one. */
  static Table load(String text) {
    SparkSession session = SparkSession.active();
    CatalogManager catalogs = session.sessionState().catalogManager();
    try {
      List<String> parts = new ArrayList<>(Scala.list(session.sessionState().sqlParser().parseMultipartIdentifier(text)));
      boolean hasCatalog = parts.size() > 1 && catalogs.isCatalogRegistered(parts.get(0));
      CatalogPlugin catalog = hasCatalog ? catalogs.catalog(parts.remove(0)) : catalogs.currentCatalog();
      String last = parts.remove(parts.size() - 1);
      if (!hasCatalog && parts.isEmpty()) {
        parts.addAll(Arrays.asList(catalogs.currentNamespace()));
      }
      Identifier table = Identifier.of(parts.toArray(new String[0]), last);
      if (!(catalog instanceof TableCatalog tables)) {
        throw new NoSuchTableException(table);
      }
      return tables.loadTable(table);
    } catch (AnalysisException error) {
      throw TableName.<RuntimeException>thrown(error instanceof ParseException ? unreadable(text) : error);
    }
  }

  private static RuntimeException unreadable(String text) {
    return new IllegalArgumentException("the name of a table cannot be read: " + text);
  }

  /** Spark's errors are checked exceptions, which functions do not declare. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E thrown(Throwable error) throws E {
    throw (E) error;
  }
}
