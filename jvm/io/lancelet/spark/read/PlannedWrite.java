package io.lancelet.spark.read;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancelet.spark.python.Ask;
import io.lancelet.spark.python.Details;
import io.lancelet.spark.python.Python;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;

/** A write that the process plans and commits which answers for catalogs; its tasks are Spark's own. */
final class PlannedWrite implements BatchWrite {
  private final LogicalWriteInfo info;
  private final boolean overwrites;

  /** What commits, as Python told it. */
  private String writer;

  PlannedWrite(LogicalWriteInfo info, boolean overwrites) {
    this.info = info;
    this.overwrites = overwrites;
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
    Map<String, ?> details =
        Map.of(
            Details.COLUMNS, Options.tree(info.schema().json()),
            Details.OPTIONS, info.options().asCaseSensitiveMap(),
            Details.OVERWRITES, overwrites,
            Details.MESSAGES, Options.tree(UserDefinedPythonDataSource.writeOutputSchema().json()));
    JsonNode answer = Python.ask(Ask.PLAN_SINK, details);
    writer = answer.get(Details.WRITER).asText();
    byte[] command = Base64.getDecoder().decode(answer.get(Details.COMMAND).asText());
    return new PythonBatchWriterFactory(
        PythonSource.forTasks(), command, info.schema(), PythonSource.artifacts(), PythonSource.logging());
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    Python.ask(Ask.COMMIT_SINK, told(messages));
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    Python.ask(Ask.ABORT_SINK, told(messages));
  }

  private Map<String, ?> told(WriterCommitMessage[] messages) {
    List<String> results = new ArrayList<>();
    for (WriterCommitMessage message : messages) {
      boolean isGiven = message instanceof PythonWriterCommitMessage;
      results.add(isGiven ? Base64.getEncoder().encodeToString(((PythonWriterCommitMessage) message).pickledMessage()) : null);
    }
    return Map.of(Details.WRITER, writer, Details.RESULTS, results);
  }
}
