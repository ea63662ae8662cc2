package io.lancelet.spark.search;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.expressions.VectorFunctionImplUtils;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.StructType;

/**
 * How far a column of vectors is from something, by one of Spark's functions.
 *
 * @param metric as Lance calls it
 * @param ascends whether small values are near
 * @param left the first argument
 * @param right the second one
 */
record Distance(String metric, boolean ascends, Expression left, Expression right) {
  private static final Map<String, String> METRICS =
      Map.of("vectorL2Distance", "l2", "vectorCosineSimilarity", "cosine", "vectorInnerProduct", "dot");

  /** Null for other expressions. */
  static Distance of(Expression expression) {
    Expression plain = expression instanceof RuntimeReplaceable replaced ? replaced.replacement() : expression;
    if (!(plain instanceof StaticInvoke call) || call.staticObject() != VectorFunctionImplUtils.class) {
      return null;
    }
    String metric = METRICS.get(call.functionName());
    List<Expression> arguments = Scala.list(call.arguments());
    return metric == null ? null : new Distance(metric, metric.equals("l2"), arguments.get(0), arguments.get(1));
  }

  /** The other order of the arguments, which have the same distance. */
  Distance flipped() {
    return new Distance(metric, ascends, right, left);
  }

  /** The column, or field of structs, that an expression is; null for others. */
  static AttributeReference column(Expression expression) {
    Expression inner = expression;
    while (inner instanceof GetStructField field) {
      inner = field.child();
    }
    return inner instanceof AttributeReference attribute ? attribute : null;
  }

  /** Its path, from the top. */
  static List<String> path(Expression expression) {
    if (expression instanceof GetStructField field) {
      List<String> path = new ArrayList<>(path(field.child()));
      path.add(((StructType) field.child().dataType()).apply(field.ordinal()).name());
      return path;
    }
    return List.of(((AttributeReference) expression).name());
  }

  /** The numbers of a constant vector; null for what is none, or has nulls in it. */
  static float[] numbers(Expression expression) {
    if (!expression.foldable() || !(expression.dataType() instanceof ArrayType type) || !(type.elementType() instanceof FloatType)) {
      return null;
    }
    Object value = expression.eval(null);
    if (!(value instanceof ArrayData array)) {
      return null;
    }
    for (int at = 0; at < array.numElements(); at++) {
      if (array.isNullAt(at) || !Float.isFinite(array.getFloat(at))) {
        return null;
      }
    }
    return array.toFloatArray();
  }

  /** A column as it is compared: Spark may have put a cast around it that changes nothing. */
  static Expression uncast(Expression expression) {
    return expression instanceof Cast cast && cast.child().dataType().sameType(cast.dataType()) ? cast.child() : expression;
  }
}
