package io.lancelet.spark.read;

import org.apache.spark.JobArtifactSet;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatch;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * Spark's own batch of a Python source, except that its tasks hand whole columns on. That needs this jar where the tasks
 * run; without it they turn columns into rows one by one, as for any Python source.
 */
final class LanceBatch extends PythonBatch {
  private static final String JAR = "lancelet-bridge";
  private static final String SETTING = "spark.lancelet.columnar";

  private final PythonDataSourceV2 source;
  private final StructType columns;
  private final CaseInsensitiveStringMap options;
  private final int limit;

  LanceBatch(PythonDataSourceV2 source, StructType columns, CaseInsensitiveStringMap options, int limit) {
    super(source, LanceProvider.NAME, columns, options);
    this.source = source;
    this.columns = columns;
    this.options = options;
    this.limit = limit;
  }

  /** Whether both read the same rows of the same version: then Spark reads them once for several parts of a plan. */
  @Override
  public boolean equals(Object other) {
    return other instanceof LanceBatch batch
        && batch.columns.equals(columns)
        && batch.options.asCaseSensitiveMap().equals(options.asCaseSensitiveMap());
  }

  @Override
  public int hashCode() {
    return options.asCaseSensitiveMap().hashCode();
  }

  /** Whether tasks can load classes of this jar; the setting says otherwise where somebody knows better. */
  static boolean tasksHaveJar() {
    SparkSession session = SparkSession.active();
    Option<String> set = session.conf().getOption(SETTING);
    if (set.isDefined()) {
      return Boolean.parseBoolean(set.get());
    }
    return session.sparkContext().isLocal()
        || session.sparkContext().listJars().exists(jar -> jar.contains(JAR));
  }

  @Override
  public InputPartition[] planInputPartitions() {
    return Sentences.told(super::planInputPartitions);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    Option<String> artifacts = JobArtifactSet.getCurrentJobArtifactState().map(state -> state.uuid());
    Option<String> logging = Option.empty();
    SparkSession session = SparkSession.active();
    if (session.sessionState().conf().pythonWorkerLoggingEnabled()) {
      logging = Option.apply(session.sessionUUID());
    }
    byte[] function = source.getOrCreateReadInfo(LanceProvider.NAME, options, columns, false).func();
    return new ColumnReaders(PythonSource.forTasks(), function, columns, limit, artifacts, logging);
  }
}
