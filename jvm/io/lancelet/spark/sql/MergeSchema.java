package io.lancelet.spark.sql;

import io.lancelet.spark.catalog.CatalogTable;
import io.lancelet.spark.catalog.LanceCatalog;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.NamedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;

/** A data frame that is appended with the option mergeSchema adds the columns that the table has not. */
final class MergeSchema extends Rule<LogicalPlan> {
  private static final List<String> OPTIONS = List.of("mergeSchema", "merge-schema", "mergeschema");

  private final SparkSession session;

  MergeSchema(org.apache.spark.sql.SparkSession session) {
    this.session = (SparkSession) session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (!(plan instanceof AppendData append) || append.withSchemaEvolution() || !asks(append) || !isOurs(append.table())) {
      return plan;
    }
    return append.copy(
        append.table(),
        append.query(),
        append.writeOptions(),
        append.isByName(),
        true,
        append.write(),
        append.analyzedQuery());
  }

  private static boolean asks(AppendData append) {
    return OPTIONS.stream()
        .map(option -> append.writeOptions().get(option))
        .anyMatch(set -> set.isDefined() && Boolean.parseBoolean(set.get()));
  }

  private boolean isOurs(NamedRelation table) {
    if (table instanceof DataSourceV2Relation relation) {
      return relation.table() instanceof CatalogTable;
    }
    if (!(table instanceof UnresolvedRelation named)) {
      return false;
    }
    CatalogManager catalogs = session.sessionState().catalogManager();
    Option<String> first = named.multipartIdentifier().headOption();
    boolean isNamed = first.isDefined() && catalogs.isCatalogRegistered(first.get());
    return (isNamed ? catalogs.catalog(first.get()) : catalogs.currentCatalog()) instanceof LanceCatalog;
  }
}
