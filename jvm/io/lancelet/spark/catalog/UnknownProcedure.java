package io.lancelet.spark.catalog;

import java.util.Map;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.types.StructType;

/** A procedure that there is not. When a catalog says so, Spark keeps the reason to itself; what this one says is told. */
record UnknownProcedure(String name, String description) implements UnboundProcedure {
  @Override
  public BoundProcedure bind(StructType arguments) {
    Map<String, String> routine = Map.of("routineName", name + " (" + description + ")");
    throw Asking.<RuntimeException>thrown(
        new AnalysisException("FAILED_TO_LOAD_ROUTINE", PythonUtils.toScalaMap(routine)));
  }
}
