package io.lancelet.spark.catalog;

import io.lancelet.spark.read.Conditions;
import io.lancelet.spark.read.LanceWriteBuilder;
import io.lancelet.spark.read.WriteInfo;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A write of rows: beside those that are there, or in place of all of them, or of those for which a condition is true. */
final class CatalogWriteBuilder extends LanceWriteBuilder implements SupportsOverwriteV2, SupportsDynamicOverwrite {
  private final LogicalWriteInfo info;
  private final StructType columns;

  CatalogWriteBuilder(LogicalWriteInfo info, StructType columns) {
    super(info);
    this.info = info;
    this.columns = columns;
  }

  @Override
  public WriteBuilder truncate() {
    return super.truncate();
  }

  /** Without partitions, to overwrite those of the new rows is to overwrite all. */
  @Override
  public WriteBuilder overwriteDynamicPartitions() {
    return truncate();
  }

  @Override
  public WriteBuilder overwrite(Predicate[] predicates) {
    List<Object> conditions = new ArrayList<>();
    for (Predicate predicate : predicates) {
      Optional<List<Object>> translated = Conditions.translate(predicate, columns);
      if (translated.isEmpty()) {
        throw new IllegalArgumentException(
            "rows can take the place of those WHERE columns are compared with values; Lance would not answer this as Spark"
                + " does: "
                + predicate
                + ". DELETE those rows, then INSERT the new ones");
      }
      conditions.add(translated.get());
    }
    Map<String, String> options = new HashMap<>(info.options().asCaseSensitiveMap());
    options.put("lance.replaced", Conditions.toJson(conditions));
    LogicalWriteInfo own = new WriteInfo(info, new CaseInsensitiveStringMap(options));
    return new LanceWriteBuilder(own);
  }
}
