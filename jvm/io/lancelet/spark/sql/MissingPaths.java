package io.lancelet.spark.sql;

import io.lancelet.spark.catalog.LanceCatalog;
import io.lancelet.spark.read.LanceProvider;
import java.util.Map;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.Identifier;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Says that there is no table at a path: {@code lance.`path`}, whose catalog has the name of a format, Spark would take for
 * files that are queried as they are, and say that Lance does not have that.
 */
final class MissingPaths extends Rule<LogicalPlan> {
  private final SparkSession session;

  MissingPaths(org.apache.spark.sql.SparkSession session) {
    this.session = (SparkSession) session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    check(plan);
    CollectionConverters.asJava(plan.subqueriesAll()).forEach(this::check);
    return plan;
  }

  private void check(LogicalPlan plan) {
    if (plan instanceof UnresolvedRelation named) {
      checkPath(named.multipartIdentifier());
    }
    if (plan instanceof RelationTimeTravel earlier) {
      check(earlier.relation());
    }
    CollectionConverters.asJava(plan.children()).forEach(this::check);
  }

  private void checkPath(Seq<String> name) {
    CatalogManager catalogs = session.sessionState().catalogManager();
    if (name.length() != 2
        || !name.head().equalsIgnoreCase(LanceProvider.NAME)
        || !name.last().contains("/")
        || !catalogs.isCatalogRegistered(name.head())
        || !(catalogs.catalog(name.head()) instanceof LanceCatalog catalog)
        || catalog.tableExists(Identifier.of(new String[0], name.last()))) {
      return;
    }
    Map<String, String> sentence = Map.of("path", name.last() + " (there is no Lance table)");
    throw MissingPaths.<RuntimeException>thrown(
        new AnalysisException("PATH_NOT_FOUND", PythonUtils.toScalaMap(sentence)));
  }

  /** Spark's errors are checked exceptions, which rules do not declare. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E thrown(Throwable error) throws E {
    throw (E) error;
  }
}
