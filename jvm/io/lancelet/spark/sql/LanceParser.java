package io.lancelet.spark.sql;

import java.util.Optional;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.ParameterContext;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.parser.SqlStatementSplitResult;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/** Puts our statements into Spark's words; all others are the next parser's, as they are. */
final class LanceParser implements ParserInterface {
  private final SparkSession session;
  private final ParserInterface next;

  LanceParser(SparkSession session, ParserInterface next) {
    this.session = session;
    this.next = next;
  }

  @Override
  public LogicalPlan parsePlan(String text) throws ParseException {
    Optional<String> known = Statements.inSparksWords(text, session);
    return next.parsePlan(known.orElse(text));
  }

  @Override
  public LogicalPlan parsePlanWithParameters(String text, ParameterContext parameters) throws ParseException {
    Optional<String> known = Statements.inSparksWords(text, session);
    return known.isPresent() ? next.parsePlan(known.get()) : next.parsePlanWithParameters(text, parameters);
  }

  @Override
  public LogicalPlan parseQuery(String text) throws ParseException {
    return next.parseQuery(text);
  }

  @Override
  public Expression parseExpression(String text) throws ParseException {
    return next.parseExpression(text);
  }

  @Override
  public TableIdentifier parseTableIdentifier(String text) throws ParseException {
    return next.parseTableIdentifier(text);
  }

  @Override
  public FunctionIdentifier parseFunctionIdentifier(String text) throws ParseException {
    return next.parseFunctionIdentifier(text);
  }

  @Override
  public Seq<String> parseMultipartIdentifier(String text) throws ParseException {
    return next.parseMultipartIdentifier(text);
  }

  @Override
  public StructType parseTableSchema(String text) throws ParseException {
    return next.parseTableSchema(text);
  }

  @Override
  public DataType parseDataType(String text) throws ParseException {
    return next.parseDataType(text);
  }

  @Override
  public StructType parseRoutineParam(String text) throws ParseException {
    return next.parseRoutineParam(text);
  }

  @Override
  public SqlStatementSplitResult splitStatements(String text) {
    return next.splitStatements(text);
  }
}
