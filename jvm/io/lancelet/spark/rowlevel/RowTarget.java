package io.lancelet.spark.rowlevel;

import io.lancelet.spark.read.LanceWriteBuilder;
import io.lancelet.spark.read.WriteInfo;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What the changes of a table's rows are written to: each has the number of its step, an address, and new values. */
final class RowTarget implements SupportsWrite {
  private final StructType columns;
  private final RetriedWrite.Statement statement;

  RowTarget(RetriedWrite.Statement statement) {
    this.statement = statement;
    this.columns = statement.query().schema().asNullable();
  }

  @Override
  public String name() {
    return statement.change().table().name();
  }

  @Override
  public StructType schema() {
    return columns;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return EnumSet.of(TableCapability.BATCH_WRITE);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    Map<String, String> options = new HashMap<>(statement.change().options());
    options.put("lance.rows", statement.steps());
    LogicalWriteInfo own = new WriteInfo(info, new CaseInsensitiveStringMap(options));
    Write first = new LanceWriteBuilder(own).build();
    return new WriteBuilder() {
      @Override
      public Write build() {
        return new RowWrite(first, statement);
      }
    };
  }

  private record RowWrite(Write first, RetriedWrite.Statement statement) implements Write {
    @Override
    public String description() {
      return first.description();
    }

    @Override
    public String toString() {
      return description();
    }

    @Override
    public BatchWrite toBatch() {
      return new RetriedWrite(first.toBatch(), statement);
    }
  }
}
