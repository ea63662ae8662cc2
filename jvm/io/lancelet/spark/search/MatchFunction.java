package io.lancelet.spark.search;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * lance_match, lance_match_phrase or lance_multi_match: a condition on texts, which the scan of a Lance table answers from its
 * index. Spark hands it over as it is; by itself it cannot answer.
 */
public record MatchFunction(String name) implements UnboundFunction {
  /** {@code lancelet.spark.search.match} knows what they mean. */
  public static final Map<String, String> ALL =
      Map.of(
          "lance_match", "lance_match(column, 'words' [, 'operator=AND,fuzziness=1,...'])",
          "lance_match_phrase", "lance_match_phrase(column, 'phrase' [, slop])",
          "lance_multi_match", "lance_multi_match('words' [, 'operator=AND'], column, ...)");

  @Override
  public String description() {
    return ALL.get(name) + ": whether texts match, by the index of a Lance table";
  }

  @Override
  public BoundFunction bind(StructType arguments) {
    List<DataType> types = new ArrayList<>();
    for (StructField argument : arguments.fields()) {
      types.add(argument.dataType());
    }
    if (types.size() < 2) {
      throw new UnsupportedOperationException(name + " needs a column and a text: " + ALL.get(name));
    }
    return new Bound(name, types.toArray(new DataType[0]), DataTypes.BooleanType);
  }

  /** For all sessions, whatever their catalog. */
  public AbstractFunction1<Seq<Expression>, Expression> builder() {
    return new AbstractFunction1<>() {
      @Override
      public Expression apply(Seq<Expression> arguments) {
        StructType types = new StructType();
        for (Expression argument : Scala.<Expression>list(arguments)) {
          types = types.add("argument", argument.dataType());
        }
        return new ApplyFunctionExpression((Bound) bind(types), arguments);
      }
    };
  }

  /** The function for arguments of some types. */
  public record Bound(String name, DataType[] inputTypes, DataType resultType) implements ScalarFunction<Object> {
    @Override
    public boolean isResultNullable() {
      return false;
    }

    @Override
    public String canonicalName() {
      return "lancelet." + name;
    }

    @Override
    public Object produceResult(InternalRow input) {
      throw misplaced(name);
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Bound bound
          && bound.name.equals(name)
          && bound.resultType.equals(resultType)
          && Arrays.equals(bound.inputTypes, inputTypes);
    }

    @Override
    public int hashCode() {
      return name.hashCode();
    }
  }

  static UnsupportedOperationException misplaced(String name) {
    return new UnsupportedOperationException(
        name
            + " is answered by the index of a Lance table: as a condition of WHERE on columns of the table itself, whose other"
            + " arguments are constants, and not together with conditions under OR or NOT that Spark has to test by itself. To"
            + " search otherwise, use the table function SEARCH");
  }
}
