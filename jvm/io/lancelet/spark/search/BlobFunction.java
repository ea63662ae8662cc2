package io.lancelet.spark.search;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/** lance_blob(column): the bytes of a blob, which are a column of the table that nobody sees unless it is named. */
public final class BlobFunction extends AbstractFunction1<Seq<Expression>, Expression> {
  public static final String NAME = "lance_blob";
  private static final String LANCE_TYPE = "lance.type";

  @Override
  public Expression apply(Seq<Expression> arguments) {
    List<Expression> given = Scala.list(arguments);
    boolean isBlob =
        given.size() == 1
            && given.get(0) instanceof AttributeReference column
            && column.metadata().contains(LANCE_TYPE)
            && column.metadata().getString(LANCE_TYPE).startsWith("blob");
    if (!isBlob) {
      throw new IllegalArgumentException(
          "lance_blob takes a column of blobs of a Lance table that has a name: SELECT lance_blob(picture) FROM"
              + " lake.shop.pictures");
    }
    AttributeReference column = (AttributeReference) given.get(0);
    List<String> path = new ArrayList<>(Scala.<String>list(column.qualifier()));
    path.add(column.name() + "__blob_bytes");
    return Scala.named(new UnresolvedAttribute(Scala.seq(path)), NAME + "(" + column.name() + ")");
  }
}
