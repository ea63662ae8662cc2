package io.lancelet.spark.read;

import java.util.List;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What Spark's own batch of a Python source is, except that its tasks hand whole columns on. That needs this jar where the
 * tasks run; without it they turn columns into rows one by one, as for any Python source.
 */
final class LanceBatch implements Batch {
  private static final String JAR = "lancelet-bridge";
  private static final String SETTING = "spark.lancelet.columnar";

  private final StructType columns;
  private final CaseInsensitiveStringMap options;
  private final int limit;

  /** Python plans once. */
  private PythonDataSourceReadInfo planned;

  LanceBatch(StructType columns, CaseInsensitiveStringMap options, int limit) {
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

  private synchronized PythonDataSourceReadInfo planned() {
    if (planned == null) {
      planned = Planner.tasks(columns, options);
    }
    return planned;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    List<byte[]> partitions = CollectionConverters.asJava(planned().partitions());
    InputPartition[] all = new InputPartition[partitions.size()];
    for (int i = 0; i < all.length; i++) {
      all[i] = new PythonInputPartition(i, partitions.get(i));
    }
    return all;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new ColumnReaders(
        PythonSource.forTasks(), planned().func(), columns, limit, PythonSource.artifacts(), PythonSource.logging());
  }
}
