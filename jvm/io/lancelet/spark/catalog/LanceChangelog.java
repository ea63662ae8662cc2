package io.lancelet.spark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancelet.spark.python.Details;
import io.lancelet.spark.read.Facts;
import io.lancelet.spark.read.LanceProvider;
import io.lancelet.spark.read.LanceTable;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.ChangelogContext.DeduplicationMode;
import org.apache.spark.sql.connector.catalog.ChangelogRange;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What versions of a table did to its rows, for {@code t CHANGES FROM ...}: Python finds and marks them. */
final class LanceChangelog extends LanceTable implements Changelog {
  /** What Spark has taken out of them is in the question already. */
  private static final Set<String> OF_SPARK =
      Set.of(
          "deduplicationmode", "computeupdates", "startingversion", "endingversion", "startingtimestamp", "endingtimestamp",
          "startingboundinclusive", "endingboundinclusive");

  private final String name;

  private LanceChangelog(String name, StructType columns, Facts facts, Map<String, String> options) {
    super(new LanceProvider(), columns, facts, options, Map.of());
    this.name = name;
  }

  static LanceChangelog of(Asking python, Identifier ident, JsonNode told) {
    Facts facts = new Facts(told.get(Details.URI).asText(), told.get(Details.VERSION).asLong(), -1, -1, List.of(), false);
    return new LanceChangelog(
        CatalogTable.shown(python, ident),
        CatalogTable.columns(told.get(Details.COLUMNS)),
        facts,
        LanceCatalog.texts(told.get(Details.OPTIONS)));
  }

  /** The range, whether only what is left of all changes is wanted, and whether updates have to be told as such. */
  static Map<String, List<Object>> asked(ChangelogContext context) {
    ChangelogRange range = context.range();
    Object start = 1;
    Object stop = null;
    boolean isTime = false;
    if (range instanceof ChangelogRange.VersionRange versions) {
      start = versions.startingVersion();
      stop = versions.endingVersion().orElse(null);
    } else if (range instanceof ChangelogRange.TimestampRange times) {
      start = times.startingTimestamp();
      stop = times.endingTimestamp().orElse(null);
      isTime = true;
    }
    List<Object> all =
        Arrays.asList(
            isTime ? "timestamp" : "version",
            String.valueOf(start),
            range.startingBoundInclusive(),
            stop == null ? null : String.valueOf(stop),
            range.endingBoundInclusive(),
            context.deduplicationMode() == DeduplicationMode.NET_CHANGES,
            context.computeUpdates());
    return Map.of(Details.CHANGES, all);
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Column[] columns() {
    return super.columns();
  }

  @Override
  public boolean containsCarryoverRows() {
    return false;
  }

  /** Python leaves them out when they are not wanted. */
  @Override
  public boolean containsIntermediateChanges() {
    return false;
  }

  /** As far as updates are known, Python tells them; where they are not, Spark could not find them out either. */
  @Override
  public boolean representsUpdateAsDeleteAndInsert() {
    return false;
  }

  @Override
  protected CaseInsensitiveStringMap withNamed(CaseInsensitiveStringMap options) {
    Map<String, String> others = new HashMap<>(options.asCaseSensitiveMap());
    others.keySet().removeIf(key -> OF_SPARK.contains(key.toLowerCase(Locale.ROOT)));
    return super.withNamed(new CaseInsensitiveStringMap(others));
  }
}
