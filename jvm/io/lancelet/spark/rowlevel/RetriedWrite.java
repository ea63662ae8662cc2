package io.lancelet.spark.rowlevel;

import io.lancelet.spark.read.LanceTable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation.Command;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * A write that is made again on the newest version when others changed the same rows before its commit. Its rows were found
 * in one version, and Python takes the files of a commit that fails away.
 */
final class RetriedWrite implements BatchWrite {
  private static final String CONFLICT = "RetryableCommitConflict";
  private static final int TIMES = 10;

  /** Milliseconds that the first pause may take; each next one may take twice as many. */
  private static final long PAUSE = 50;

  private static final int LONGEST = 6;

  private final BatchWrite first;
  private final Statement statement;

  RetriedWrite(BatchWrite first, Statement statement) {
    this.first = first;
    this.statement = statement;
  }

  /**
   * A change and the plan that finds its rows.
   *
   * @param steps what is done with them, for Python
   * @param relation the table, as Spark's catalog has it
   */
  record Statement(RowChange change, LogicalPlan query, String steps, DataSourceV2Relation relation, int times) {
    AppendData written() {
      return RowChanges.appended(this);
    }

    /** The same on the newest version, or null when it has other columns, or is not what was meant: options chose a branch. */
    Statement onNewest() {
      Command command = change.command();
      TableWritePrivilege what = command == Command.DELETE ? TableWritePrivilege.DELETE : TableWritePrivilege.UPDATE;
      try {
        TableCatalog catalog = (TableCatalog) relation.catalog().get();
        Table newest = catalog.loadTable(relation.identifier().get(), Set.of(what));
        RowChange again = RowChange.of((SupportsRowLevelOperations) newest, command, relation.options());
        if (!again.uri().equals(change.uri()) || !Arrays.equals(newest.columns(), change.table().columns())) {
          return null;
        }
        return new Statement(again, refreshed(query, again), steps, relation, times + 1);
      } catch (NoSuchTableException | IllegalArgumentException other) {
        return null;
      }
    }

    /**
     * Whether the plan reads the table also where it would not get the newest version, as the subquery of {@code DELETE FROM t
     * WHERE n < (SELECT avg(n) FROM t)}: its rows and its values would be of two versions.
     */
    boolean readsOldRows() {
      List<LogicalPlan> plans = new ArrayList<>(CollectionConverters.asJava(query.subqueriesAll()));
      boolean inSubquery = plans.stream().anyMatch(plan -> leaves(plan).stream().anyMatch(this::isOfTable));
      return inSubquery
          || leaves(query).stream().anyMatch(leaf -> isOfTable(leaf) && newest(tableOf(leaf), change) == null);
    }

    private static List<LogicalPlan> leaves(LogicalPlan plan) {
      return CollectionConverters.asJava(plan.collectLeaves());
    }

    private static Table tableOf(LogicalPlan leaf) {
      return ((DataSourceV2Relation) leaf).table();
    }

    private boolean isOfTable(LogicalPlan leaf) {
      if (!(leaf instanceof DataSourceV2Relation found) || found.timeTravelSpec().isDefined()) {
        return false;
      }
      return found.table() instanceof LanceTable table && (table.uri() == null || table.uri().equals(change.uri()));
    }

    private LogicalPlan refreshed(LogicalPlan plan, RowChange again) {
      if (plan instanceof DataSourceV2Relation found) {
        Table newest = newest(found.table(), again);
        return newest == null
            ? plan
            : found.copy(
                newest, found.output(), found.catalog(), found.identifier(), found.options(), found.timeTravelSpec());
      }
      return plan.mapChildren(
          new AbstractFunction1<>() {
            @Override
            public LogicalPlan apply(LogicalPlan child) {
              return refreshed(child, again);
            }
          });
    }

    private Table newest(Table found, RowChange again) {
      if (found == change.table()) {
        return again.table();
      }
      boolean isTarget = found instanceof RowLevelOperationTable target && target.table() == change.table();
      return isTarget ? new RowLevelOperationTable((SupportsRowLevelOperations) again.table(), again) : null;
    }
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    try {
      first.commit(messages);
    } catch (Exception error) {
      // Of Spark's errors, some are checked ones that nobody declares.
      boolean mayBeMadeAgain = isConflict(error) && statement.times() < TIMES && !statement.readsOldRows();
      Statement newest = mayBeMadeAgain && paused() ? statement.onNewest() : null;
      if (newest == null) {
        throw error;
      }
      Dataset.ofRows(SparkSession.active(), newest.written()).collect();
    }
  }

  /** Lets others end first; false when the statement is to stop. */
  private boolean paused() {
    try {
      Thread.sleep(ThreadLocalRandom.current().nextLong(PAUSE << Math.min(statement.times(), LONGEST)));
      return true;
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  private static boolean isConflict(Throwable error) {
    return error != null
        && (String.valueOf(error.getMessage()).contains(CONFLICT) || isConflict(error.getCause()));
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    return first.createBatchWriterFactory(info);
  }

  @Override
  public boolean useCommitCoordinator() {
    return first.useCommitCoordinator();
  }

  @Override
  public void onDataWriterCommit(WriterCommitMessage message) {
    first.onDataWriterCommit(message);
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    first.abort(messages);
  }
}
