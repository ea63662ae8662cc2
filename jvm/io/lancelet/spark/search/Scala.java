package io.lancelet.spark.search;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Lists between Java and Scala. */
final class Scala {
  private Scala() {}

  static <T> List<T> list(Seq<? extends T> given) {
    return new ArrayList<>(CollectionConverters.asJava(given));
  }

  static <T> Seq<T> seq(List<? extends T> given) {
    return CollectionConverters.asScala(new ArrayList<T>(given)).toList();
  }

  static Alias named(Expression value, String name) {
    return new Alias(value, name, NamedExpression.newExprId(), seq(List.of()), Option.empty(), seq(List.of()));
  }
}
