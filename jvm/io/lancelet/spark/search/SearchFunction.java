package io.lancelet.spark.search;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancelet.spark.python.Ask;
import io.lancelet.spark.python.Details;
import io.lancelet.spark.python.Job;
import io.lancelet.spark.python.Python;
import io.lancelet.spark.read.LanceTable;
import io.lancelet.spark.read.Sentences;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.FunctionTableSubqueryArgumentExpression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedArgumentExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDTFAnalyzeResult;
import org.apache.spark.sql.catalyst.expressions.UnresolvedPolymorphicPythonUDTF;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.python.UserDefinedPythonTableFunction;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Function1;
import scala.Function2;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction0;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;
import scala.runtime.AbstractPartialFunction;

/**
 * VECTOR_SEARCH, SEARCH or HYBRID_SEARCH: a table function of Python's, which is told where the table is that its first
 * argument names.
 */
public final class SearchFunction extends AbstractFunction1<Seq<Expression>, LogicalPlan> {
  /** {@code lancelet.spark.search.function} has the same. */
  public static final List<String> NAMES = List.of("vector_search", "search", "hybrid_search");

  private static final String TABLE = "table";
  private static final String NAMESPACE = "namespace";

  /** Spark's number for functions whose results are tables. */
  private static final int MAKES_TABLES = 300;

  private final String name;

  public SearchFunction(String name) {
    this.name = name;
  }

  @Override
  public LogicalPlan apply(Seq<Expression> arguments) {
    List<Expression> given = Scala.list(arguments);
    boolean hasNames = given.stream().anyMatch(argument -> argument instanceof NamedArgumentExpression);
    boolean isByPath = given.stream().anyMatch(argument -> isNamed(argument, NAMESPACE));
    Map<String, Object> place = null;
    for (int at = 0; at < given.size() && !isByPath; at++) {
      if (isNamed(given.get(at), TABLE) || (at == 0 && !hasNames)) {
        boolean isNamed = given.get(at) instanceof NamedArgumentExpression;
        Expression table = isNamed ? ((NamedArgumentExpression) given.get(at)).value() : given.get(at);
        place = place(table);
        if (place != null && table instanceof FunctionTableSubqueryArgumentExpression) {
          Expression shown = Literal.create(place.get("uri"), DataTypes.StringType);
          given.set(at, isNamed ? new NamedArgumentExpression(TABLE, shown) : shown);
        }
      }
    }
    Map<String, Object> details = new HashMap<>(Map.of(Details.NAME, name));
    details.put(Details.PLACE, place);
    JsonNode told = Python.ask(Ask.LOAD_FUNCTION, details);
    SparkSession session = SparkSession.active();
    LogicalPlan found =
        new UserDefinedPythonTableFunction(name.toUpperCase(Locale.ROOT), Job.function(told), MAKES_TABLES, true)
            .builder(
                Scala.seq(given),
                new AbstractFunction0<>() {
                  @Override
                  public ParserInterface apply() {
                    return session.sessionState().sqlParser();
                  }
                });
    return withSentences(found);
  }

  /** The same search; what Python refuses when it looks at the arguments is told in its sentence. */
  private static LogicalPlan withSentences(LogicalPlan plan) {
    return (LogicalPlan)
        plan.transformExpressions(
            new AbstractPartialFunction<Expression, Expression>() {
              @Override
              public boolean isDefinedAt(Expression expression) {
                return expression instanceof UnresolvedPolymorphicPythonUDTF;
              }

              @Override
              @SuppressWarnings("unchecked")
              public <A extends Expression, B> B applyOrElse(A expression, Function1<A, B> otherwise) {
                return expression instanceof UnresolvedPolymorphicPythonUDTF search
                    ? (B) withSentences(search)
                    : otherwise.apply(expression);
              }
            });
  }

  private static Expression withSentences(UnresolvedPolymorphicPythonUDTF search) {
    Function2<PythonFunction, Seq<Expression>, PythonUDTFAnalyzeResult> analyze = search.resolveElementMetadata();
    return search.copy(
        search.name(),
        search.func(),
        search.children(),
        search.evalType(),
        search.udfDeterministic(),
        new AbstractFunction2<>() {
          @Override
          public PythonUDTFAnalyzeResult apply(PythonFunction function, Seq<Expression> arguments) {
            return Sentences.told(() -> analyze.apply(function, arguments));
          }
        },
        search.resultId(),
        search.tableArguments());
  }

  private static boolean isNamed(Expression argument, String name) {
    return argument instanceof NamedArgumentExpression named && named.key().equalsIgnoreCase(name);
  }

  /** Where the table is that an argument names; null where it is a path, or makes no sense: Python tells. */
  private static Map<String, Object> place(Expression argument) {
    if (argument instanceof FunctionTableSubqueryArgumentExpression given) {
      LogicalPlan plan = given.plan();
      while (plan instanceof SubqueryAlias alias) {
        plan = alias.child();
      }
      if (plan instanceof DataSourceV2Relation relation && relation.table() instanceof LanceTable table) {
        return table.place(relation.options());
      }
      throw new IllegalArgumentException("TABLE(...) is a Lance table here, by its name, and no query or view");
    }
    if (!argument.foldable() || !(argument.dataType() instanceof StringType)) {
      return null;
    }
    Object value = argument.eval(null);
    String text = value == null ? "" : value.toString();
    if (text.isEmpty() || TableName.isPath(text)) {
      return null;
    }
    if (TableName.load(text) instanceof LanceTable table) {
      return table.place(CaseInsensitiveStringMap.empty());
    }
    throw new IllegalArgumentException(text + " is not a Lance table; searches take names and paths of Lance tables");
  }

  /** All functions, by their names. */
  public static Stream<SearchFunction> all() {
    return NAMES.stream().map(SearchFunction::new);
  }

  public String name() {
    return name;
  }
}
