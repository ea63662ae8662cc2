package io.lancelet.spark.read;

import com.fasterxml.jackson.core.JsonProcessingException;
import io.lancelet.spark.python.Python;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.UserDefinedScalarFunc;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * Spark's conditions as the nested lists that {@code lancelet.spark.predicates} reads. Only those are translated that
 * mean exactly the same there: Spark does not check them again.
 */
public final class Conditions {
  private static final String LANCE_TYPE = "lance.type";
  private static final String OURS = "lancelet.";
  private static final List<String> SINGLE_ROWS = List.of("_rowid", "_rowaddr");

  /** Lance types whose values are the same in Spark, though Spark's type is another. */
  private static final List<String> EXACT_LANCE =
      List.of(
          "uint8", "uint16", "uint32", "halffloat", "large_string", "large_binary", "timestamp:s:", "timestamp:ms:");

  private static final Map<String, String> COMPARISONS =
      Map.of("=", "=", "<>", "!=", "<", "<", "<=", "<=", ">", ">", ">=", ">=", "<=>", "<=>");
  private static final Map<String, String> FLIPPED =
      Map.of("=", "=", "<>", "!=", "<", ">", "<=", ">=", ">", "<", ">=", "<=", "<=>", "<=>");
  private static final Map<String, String> TEXTS =
      Map.of("STARTS_WITH", "starts_with", "ENDS_WITH", "ends_with", "CONTAINS", "contains");

  private final StructType columns;
  private final boolean matches;

  private Conditions(StructType columns, boolean matches) {
    this.columns = columns;
    this.matches = matches;
  }

  /** All conditions together. */
  public static String toJson(List<Object> conditions) {
    List<Object> all = new ArrayList<>(List.of("and"));
    all.addAll(conditions);
    try {
      return Python.JSON.writeValueAsString(all);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** The translation, or nothing when Spark has to evaluate the condition itself. */
  public static Optional<List<Object>> translate(Expression condition, StructType columns) {
    return new Conditions(columns, false).translated(condition);
  }

  /** As {@link #translate}, for scans, which can also tell which texts match. */
  public static Optional<List<Object>> translateForScan(Expression condition, StructType columns) {
    return new Conditions(columns, true).translated(condition);
  }

  /** Whether values of a column are in the same order here and there. */
  static boolean isComparable(NamedReference column, StructType columns) {
    return new Conditions(columns, false).column(column, true).isPresent();
  }

  private Optional<List<Object>> translated(Expression condition) {
    if (!(condition instanceof Predicate predicate)) {
      return Optional.empty();
    }
    Expression[] children = predicate.children();
    String name = predicate.name();
    switch (name) {
      case "AND":
      case "OR":
        return joined(name.toLowerCase(java.util.Locale.ROOT), children);
      case "NOT":
        return translated(children[0]).map(inner -> List.of("not", inner));
      case "ALWAYS_TRUE":
        return Optional.of(List.of("true"));
      case "ALWAYS_FALSE":
        return Optional.of(List.of("false"));
      case "IS_NULL":
      case "IS_NOT_NULL":
        return column(children[0], false)
            .map(column -> List.of(name.toLowerCase(java.util.Locale.ROOT), column));
      case "IN":
        return in(children);
      case "=":
        Optional<List<Object>> match = matches ? match(children) : Optional.empty();
        return match.isPresent() ? match : compared(name, children);
      default:
        return compared(name, children);
    }
  }

  /** A condition on texts: the function, and its columns and constants. */
  private Optional<List<Object>> match(Expression[] children) {
    Expression expression = children[children[0] instanceof Literal ? 1 : 0];
    if (!(expression instanceof UserDefinedScalarFunc function) || !function.canonicalName().startsWith(OURS)) {
      return Optional.empty();
    }
    List<Object> arguments = new ArrayList<>();
    for (Expression child : function.children()) {
      Optional<List<Object>> argument = child instanceof Literal ? literal(child) : column(child, false);
      if (argument.isEmpty()) {
        return Optional.empty();
      }
      arguments.add(argument.get());
    }
    return Optional.of(List.of("match", function.name(), arguments));
  }

  /** Whether one of some translated conditions is about a column with an index, or about single rows. */
  static boolean areIndexed(List<?> conditions, Facts facts) {
    return conditions.stream().anyMatch(condition -> condition instanceof List<?> parts && isIndexed(parts, facts));
  }

  private static boolean isIndexed(List<?> parts, Facts facts) {
    if (parts.size() > 1 && "col".equals(parts.get(0))) {
      return facts.indexed().contains(parts.get(1)) || SINGLE_ROWS.contains(parts.get(1));
    }
    return areIndexed(parts, facts);
  }

  /** Whether a translated condition is about texts that match, or has such in it. */
  static boolean hasMatch(List<?> condition) {
    return "match".equals(condition.get(0))
        || condition.stream().anyMatch(part -> part instanceof List<?> inner && !inner.isEmpty() && hasMatch(inner));
  }

  /** Both sides of AND or OR; what one has of the same word stands beside the other, so that long chains do not become deep. */
  private Optional<List<Object>> joined(String word, Expression[] children) {
    List<Object> parts = new ArrayList<>(List.of(word));
    for (Expression child : children) {
      Optional<List<Object>> part = translated(child);
      if (part.isEmpty()) {
        return Optional.empty();
      }
      if (word.equals(part.get().get(0))) {
        parts.addAll(part.get().subList(1, part.get().size()));
      } else {
        parts.add(part.get());
      }
    }
    return Optional.of(parts);
  }

  private Optional<List<Object>> in(Expression[] children) {
    Optional<List<Object>> column = column(children[0], true);
    List<Object> literals = new ArrayList<>();
    for (Expression child : Arrays.asList(children).subList(1, children.length)) {
      Optional<List<Object>> literal = literal(child);
      if (column.isEmpty() || literal.isEmpty()) {
        return Optional.empty();
      }
      literals.add(literal.get());
    }
    return column.map(found -> List.of("in", found, literals));
  }

  private Optional<List<Object>> compared(String name, Expression[] children) {
    if (children.length != 2) {
      return Optional.empty();
    }
    boolean flipped = children[0] instanceof Literal;
    String operator = (flipped ? FLIPPED : COMPARISONS).get(name);
    if (operator == null && !flipped) {
      operator = TEXTS.get(name);
    }
    Optional<List<Object>> column = column(children[flipped ? 1 : 0], true);
    Optional<List<Object>> literal = literal(children[flipped ? 0 : 1]);
    if (operator == null || column.isEmpty() || literal.isEmpty()) {
      return Optional.empty();
    }
    return Optional.of(List.of(operator, column.get(), literal.get()));
  }

  /** A column or a field of structs; when it is compared, one whose values mean the same in Lance. */
  private Optional<List<Object>> column(Expression expression, boolean compared) {
    if (!(expression instanceof NamedReference reference)) {
      return Optional.empty();
    }
    List<Object> path = new ArrayList<>(List.of("col"));
    DataType around = columns;
    StructField field = null;
    for (String name : reference.fieldNames()) {
      if (!(around instanceof StructType struct) || !Arrays.asList(struct.fieldNames()).contains(name)) {
        return Optional.empty();
      }
      field = struct.apply(name);
      if (kept(field).equals("blob")) {
        return Optional.empty();
      }
      around = field.dataType();
      path.add(name);
    }
    if (field == null || (compared && !comparesAlike(field))) {
      return Optional.empty();
    }
    return Optional.of(path);
  }

  private static String kept(StructField field) {
    return field.metadata().contains(LANCE_TYPE) ? field.metadata().getString(LANCE_TYPE) : "";
  }

  private static boolean comparesAlike(StructField field) {
    String kept = kept(field);
    return typeName(field.dataType()) != null
        && (kept.isEmpty() || EXACT_LANCE.stream().anyMatch(kept::startsWith));
  }

  private static Optional<List<Object>> literal(Expression expression) {
    if (!(expression instanceof Literal<?> literal) || typeName(literal.dataType()) == null) {
      return Optional.empty();
    }
    Object value = literal.value();
    String text = null;
    if (value != null) {
      text = value instanceof byte[] bytes ? Base64.getEncoder().encodeToString(bytes) : value.toString();
    }
    return Optional.of(Arrays.asList("lit", typeName(literal.dataType()), text));
  }

  /** The name of a type that both sides know, or null. A text with a collation is none: it compares otherwise. */
  private static String typeName(DataType type) {
    if (type instanceof DecimalType decimal) {
      return "decimal(" + decimal.precision() + "," + decimal.scale() + ")";
    }
    if (type.equals(DataTypes.StringType)) {
      return "string";
    }
    boolean plain =
        type instanceof BooleanType
            || type instanceof ByteType
            || type instanceof ShortType
            || type instanceof IntegerType
            || type instanceof LongType
            || type instanceof FloatType
            || type instanceof DoubleType
            || type instanceof BinaryType
            || type instanceof DateType
            || type instanceof TimestampType
            || type instanceof TimestampNTZType;
    return plain ? type.typeName() : null;
  }
}
