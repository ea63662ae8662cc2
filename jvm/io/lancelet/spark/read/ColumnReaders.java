package io.lancelet.spark.read;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.api.python.PythonEvalType;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomTaskMetric;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType$;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskCompletionListener;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Readers, one for each task, of the Arrow batches that the Python worker sends; the batches are handed on as they are. */
final class ColumnReaders implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;

  private final UserDefinedPythonDataSource source;
  private final byte[] function;
  private final StructType columns;
  private final int limit;
  private final Option<String> artifacts;
  private final Option<String> logging;

  ColumnReaders(
      UserDefinedPythonDataSource source,
      byte[] function,
      StructType columns,
      int limit,
      Option<String> artifacts,
      Option<String> logging) {
    this.source = source;
    this.function = function;
    this.columns = columns;
    this.limit = limit;
    this.artifacts = artifacts;
    this.logging = logging;
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    throw new UnsupportedOperationException("rows are made of the columns by Spark");
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    Map<String, SQLMetric> metrics = PythonCustomMetric.pythonMetrics();
    Reader reader = new Reader(batches((PythonInputPartition) partition, metrics), columns, limit, metrics);
    // Spark calls the last one first: this one before the one that gives the worker up.
    TaskContext.get().addTaskCompletionListener((TaskCompletionListener) context -> reader.finish());
    return reader;
  }

  /** The worker is given one row, the task's partition, and answers with batches. */
  private Iterator<ColumnarBatch> batches(PythonInputPartition partition, Map<String, SQLMetric> metrics) {
    SQLConf conf = SQLConf.get();
    ChainedPythonFunctions functions =
        new ChainedPythonFunctions(listOf(source.createPythonFunction(function)));
    StructField input =
        new StructField("struct", UserDefinedPythonDataSource.readInputSchema(), true, Metadata.empty());
    ArrowPythonRunner runner =
        new ArrowPythonRunner(
            listOf(new Tuple2<ChainedPythonFunctions, Object>(functions, 0L)),
            PythonEvalType.SQL_MAP_ARROW_ITER_UDF(),
            new int[][] {{0}},
            new StructType(new StructField[] {input}),
            conf.sessionLocalTimeZone(),
            conf.arrowUseLargeVarTypes(),
            ArrowPythonRunner.getPythonRunnerConfMap(conf),
            metrics,
            artifacts,
            logging);
    Iterator<InternalRow> rows = listOf(row(row(partition.pickedPartition()))).iterator();
    TaskContext context = TaskContext.get();
    return runner.compute(listOf(rows).iterator(), context.partitionId(), context);
  }

  private static InternalRow row(Object value) {
    return new GenericInternalRow(new Object[] {value});
  }

  private static <T> Seq<T> listOf(T value) {
    return CollectionConverters.asScala(Collections.singletonList(value)).toSeq();
  }

  private static final class Reader implements PartitionReader<ColumnarBatch> {
    private final Iterator<ColumnarBatch> batches;
    private final StructType columns;
    private final int limit;
    private final Map<String, SQLMetric> metrics;
    private boolean checked = false;
    private long given = 0;
    private long read = 0;
    private long bytes = 0;

    Reader(Iterator<ColumnarBatch> batches, StructType columns, int limit, Map<String, SQLMetric> metrics) {
      this.batches = batches;
      this.columns = columns;
      this.limit = limit;
      this.metrics = metrics;
    }

    @Override
    public boolean next() {
      return batches.hasNext();
    }

    /** The columns come as the fields of one struct. */
    @Override
    public ColumnarBatch get() {
      ColumnarBatch wrapped = batches.next();
      ArrowColumnVector struct = (ArrowColumnVector) wrapped.column(0);
      if (!checked && !DataType$.MODULE$.equalsIgnoreCompatibleNullability(struct.dataType(), columns)) {
        throw new IllegalStateException(
            "the Python worker sent " + struct.dataType().sql() + ", not " + columns.sql()
                + "; driver and workers have different versions of lancelet");
      }
      checked = true;
      given += wrapped.numRows();
      read++;
      bytes += struct.getValueVector().getBufferSize();
      ColumnVector[] vectors = new ColumnVector[columns.size()];
      for (int i = 0; i < vectors.length; i++) {
        vectors[i] = FlatVector.of(struct.getChild(i));
      }
      return new ColumnarBatch(vectors, wrapped.numRows());
    }

    /**
     * Spark kills a worker whose answer it has not read to the end. After the rows of a limit there is nothing left but
     * the end, so that it is read here: the next task finds the worker alive.
     */
    void finish() {
      if (limit >= 0 && given >= limit) {
        while (batches.hasNext()) {
          batches.next();
        }
      }
    }

    /** The worker is released when the task ends. */
    @Override
    public void close() {}

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      List<CustomTaskMetric> all = new ArrayList<>(Metrics.values(read, bytes));
      CollectionConverters.asJava(metrics)
          .forEach((name, metric) -> all.add(new PythonCustomTaskMetric(name, metric.value())));
      return all.toArray(new CustomTaskMetric[0]);
    }
  }
}
