package io.lancelet.spark.read;

import io.lancelet.spark.python.Python;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** Spark's own write, except that mistakes are told in a sentence, and that no process is started for each question. */
record PlainWrite(Write write, LogicalWriteInfo info, boolean overwrites) implements Write {
  @Override
  public String description() {
    return write.description();
  }

  @Override
  public String toString() {
    return write.toString();
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return write.supportedCustomMetrics();
  }

  @Override
  public BatchWrite toBatch() {
    return new PlainBatch(Python.isShared() ? new PlannedWrite(info, overwrites) : Sentences.told(write::toBatch));
  }

  @Override
  public StreamingWrite toStreaming() {
    return Sentences.told(write::toStreaming);
  }

  private record PlainBatch(BatchWrite write) implements BatchWrite {
    @Override
    public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
      return Sentences.told(() -> write.createBatchWriterFactory(info));
    }

    @Override
    public boolean useCommitCoordinator() {
      return write.useCommitCoordinator();
    }

    @Override
    public void onDataWriterCommit(WriterCommitMessage message) {
      write.onDataWriterCommit(message);
    }

    @Override
    public void commit(WriterCommitMessage[] messages) {
      Sentences.told(
          () -> {
            write.commit(messages);
            return null;
          });
    }

    @Override
    public void abort(WriterCommitMessage[] messages) {
      write.abort(messages);
    }
  }
}
