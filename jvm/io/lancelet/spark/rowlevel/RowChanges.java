package io.lancelet.spark.rowlevel;

import io.lancelet.spark.read.LanceTable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NullsLast$;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.InsertOnlyMerge;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.util.RowDeltaUtils;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.write.RowLevelOperation.Command;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Makes a write of changes of what Spark plans for UPDATE and MERGE, and for a DELETE that needs a job.
 *
 * <p>Spark's plan gives every row all of its columns, as Spark holds them: nanoseconds would be cut off, blobs and JSON be
 * written anew. Here only those stay that a clause assigns; the others are read from the table where new rows are written.
 *
 * <pre>
 *   Spark's:  operation, all columns, address     WriteDelta
 *   ours:     step,      address,     columns     AppendData to a {@link RowTarget}, and Python's writer
 * </pre>
 */
public final class RowChanges extends Rule<LogicalPlan> {
  private static final String STEP = "__lance_step";

  private final List<Command> commands;

  /** For statements of some kinds. Of a DELETE, the optimizer first sees whether it needs a job. */
  public RowChanges(Command... commands) {
    this.commands = List.of(commands);
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan instanceof WriteDelta delta) {
      RowChange change = change(delta);
      return change == null || !commands.contains(change.command()) ? plan : written(delta, change);
    }
    if (plan instanceof InsertOnlyMerge merge && commands.contains(Command.MERGE)) {
      return inserted(merge);
    }
    return plan.mapChildren(
        new AbstractFunction1<>() {
          @Override
          public LogicalPlan apply(LogicalPlan child) {
            return RowChanges.this.apply(child);
          }
        });
  }

  private static RowChange change(WriteDelta delta) {
    boolean isOurs =
        delta.table() instanceof DataSourceV2Relation relation
            && relation.table() instanceof RowLevelOperationTable table
            && table.operation() instanceof RowChange;
    return isOurs ? (RowChange) delta.operation() : null;
  }

  private static LogicalPlan written(WriteDelta delta, RowChange change) {
    DataSourceV2Relation relation = (DataSourceV2Relation) delta.originalTable();
    Columns columns = new Columns(relation, change);
    LogicalPlan query =
        switch (change.command()) {
          case DELETE -> deleted(delta.query(), columns);
          case UPDATE -> updated(delta.query(), columns);
          case MERGE -> merged(delta.query(), columns);
        };
    String predicate = change.command() == Command.DELETE ? delta.condition().sql() : "";
    String steps = columns.steps.toJson(columns.names, predicate);
    return new RetriedWrite.Statement(change, query, steps, relation, 0).written();
  }

  static AppendData appended(RetriedWrite.Statement statement) {
    DataSourceV2Relation relation = statement.relation();
    DataSourceV2Relation target =
        DataSourceV2Relation.create(
            new RowTarget(statement), relation.catalog(), relation.identifier(), relation.options(), Option.empty());
    return AppendData.byPosition(target, statement.query(), Map$.MODULE$.<String, String>empty(), false);
  }

  /**
   * A MERGE that only inserts is an append to Spark. Where the table has a key, those of the new rows are to be told to other
   * writers: two that insert the same key at the same time would both find it missing.
   */
  private static LogicalPlan inserted(InsertOnlyMerge merge) {
    boolean isOurs =
        merge.table() instanceof DataSourceV2Relation found
            && found.table() instanceof SupportsRowLevelOperations
            && found.table() instanceof LanceTable
            && found.table().constraints().length > 0;
    if (!isOurs) {
      return merge;
    }
    DataSourceV2Relation relation = (DataSourceV2Relation) merge.table();
    RowChange change =
        RowChange.of((SupportsRowLevelOperations) relation.table(), Command.MERGE, relation.options());
    Columns columns = new Columns(relation, change);
    List<NamedExpression> wanted = new ArrayList<>();
    wanted.add(named(number(columns.steps.add(Steps.INSERT, columns.names)), STEP));
    wanted.add(named(new Literal(null, DataTypes.LongType), RowChange.ADDRESS));
    wanted.addAll(list(merge.query().output()));
    LogicalPlan query = new Project(seq(wanted), merge.query());
    return new RetriedWrite.Statement(change, query, columns.steps.toJson(columns.names, ""), relation, 0).written();
  }

  private static LogicalPlan deleted(LogicalPlan query, Columns columns) {
    int step = columns.steps.add(Steps.DELETE, List.of());
    List<NamedExpression> wanted = List.of(named(number(step), STEP), columns.address(query));
    return new Project(seq(wanted), query);
  }

  private static LogicalPlan updated(LogicalPlan query, Columns columns) {
    Project project = (Project) query;
    List<NamedExpression> all = list(project.projectList());
    List<Expression> values = new ArrayList<>();
    all.forEach(expression -> values.add(expression instanceof Alias alias ? alias.child() : (Expression) expression));
    List<String> assigned = columns.assigned(values);
    int step = columns.steps.add(Steps.UPDATE, assigned);
    List<NamedExpression> wanted = new ArrayList<>();
    wanted.add(named(number(step), STEP));
    wanted.add(all.get(columns.addressPlace(list(project.output()))));
    for (String name : assigned) {
      wanted.add(named(values.get(columns.place(name)), name));
    }
    return new Project(seq(wanted), project.child());
  }

  private static LogicalPlan merged(LogicalPlan query, Columns columns) {
    MergeRows rows = (MergeRows) query;
    List<Attribute> output = list(rows.output());
    int addressPlace = columns.addressPlace(output);
    List<List<MergeRows.Instruction>> clauses =
        List.of(
            list(rows.matchedInstructions()),
            list(rows.notMatchedInstructions()),
            list(rows.notMatchedBySourceInstructions()));
    for (List<MergeRows.Instruction> instructions : clauses) {
      instructions.forEach(columns::note);
    }
    List<String> assigned = columns.steps.columns(columns.names);
    List<Attribute> wanted = new ArrayList<>();
    wanted.add((Attribute) named(number(0), STEP).toAttribute());
    wanted.add(output.get(addressPlace).withNullability(true));
    assigned.forEach(name -> wanted.add(output.get(columns.place(name)).withNullability(true)));
    List<Seq<MergeRows.Instruction>> made = new ArrayList<>();
    for (List<MergeRows.Instruction> instructions : clauses) {
      made.add(seq(instructions.stream().map(each -> columns.narrowed(each, addressPlace, assigned)).toList()));
    }
    MergeRows narrowed =
        new MergeRows(
            rows.isSourceRowPresent(),
            rows.isTargetRowPresent(),
            made.get(0),
            made.get(1),
            made.get(2),
            rows.checkCardinality(),
            seq(wanted),
            rows.child());
    // New rows come last: those that keep their ids are the first of the new fragments.
    SortOrder byAddress = new SortOrder(wanted.get(1), Ascending$.MODULE$, NullsLast$.MODULE$, seq(List.of()));
    return new Sort(seq(List.of(byAddress)), false, narrowed, Option.empty());
  }

  /** The columns of the table, and where Spark's plan has them: after the operation, in the order of the table. */
  private static final class Columns {
    private final List<String> names;
    private final List<AttributeReference> own;
    private final Steps steps = new Steps();

    Columns(DataSourceV2Relation relation, RowChange change) {
      this.names = Arrays.asList(change.table().schema().fieldNames());
      this.own = list(relation.output());
    }

    int place(String name) {
      return names.indexOf(name) + 1;
    }

    /** Columns whose value is another one than that which they have. */
    List<String> assigned(List<Expression> values) {
      List<String> found = new ArrayList<>();
      for (int at = 0; at < names.size(); at++) {
        Expression value = values.get(at + 1);
        if (!value.semanticEquals(own.get(at))) {
          found.add(names.get(at));
          noteKept(value, own.get(at), List.of(names.get(at)));
        }
      }
      return found;
    }

    /** Where one field of a struct is assigned, Spark makes a new struct, to which the other fields go through Spark. */
    private void noteKept(Expression value, Expression old, List<String> path) {
      if (value.semanticEquals(old)) {
        steps.keep(path);
      } else if (value instanceof CreateNamedStruct made && old.dataType() instanceof StructType struct) {
        List<Expression> parts = list(made.valExprs());
        for (int at = 0; at < Math.min(parts.size(), struct.size()); at++) {
          List<String> inner = new ArrayList<>(path);
          inner.add(struct.apply(at).name());
          noteKept(parts.get(at), new GetStructField(old, at, Option.empty()), inner);
        }
      } else if (value instanceof If choice) {
        noteKept(choice.trueValue(), old, path);
        noteKept(choice.falseValue(), old, path);
      }
    }

    int addressPlace(List<Attribute> output) {
      for (int at = 0; at < output.size(); at++) {
        if (output.get(at).name().equals(RowChange.ADDRESS)) {
          return at;
        }
      }
      throw new IllegalStateException("Spark's plan has no addresses of rows: " + output);
    }

    NamedExpression address(LogicalPlan query) {
      List<Attribute> output = list(query.output());
      return output.get(addressPlace(output));
    }

    /** The number of the step that an instruction is; unknown ones are refused. */
    int note(MergeRows.Instruction instruction) {
      List<Expression> output = list(keep(instruction).output());
      int operation = (Integer) ((Literal) output.get(0)).value();
      if (operation == RowDeltaUtils.UPDATE_OPERATION()) {
        return steps.add(Steps.UPDATE, assigned(output));
      } else if (operation == RowDeltaUtils.INSERT_OPERATION()) {
        return steps.add(Steps.INSERT, names);
      } else if (operation == RowDeltaUtils.DELETE_OPERATION()) {
        return steps.add(Steps.DELETE, List.of());
      }
      throw new IllegalStateException("Spark's plan does something unknown with rows: " + instruction);
    }

    /** The same instruction, which gives the step, the address and the columns that any step assigns. */
    MergeRows.Instruction narrowed(MergeRows.Instruction instruction, int addressPlace, List<String> assigned) {
      MergeRows.Keep keep = keep(instruction);
      List<Expression> output = list(keep.output());
      int step = note(instruction);
      List<String> given = steps.columnsOf(step);
      List<Expression> wanted = new ArrayList<>(List.of(number(step), output.get(addressPlace)));
      for (String name : assigned) {
        Expression value = output.get(place(name));
        wanted.add(given.contains(name) ? value : new Literal(null, own.get(place(name) - 1).dataType()));
      }
      return new MergeRows.Keep(keep.context(), keep.condition(), seq(wanted));
    }

    private static MergeRows.Keep keep(MergeRows.Instruction instruction) {
      if (instruction instanceof MergeRows.Keep keep) {
        return keep;
      }
      throw new IllegalStateException("Spark's plan does something unknown with rows: " + instruction);
    }
  }

  private static Expression number(int value) {
    return new Literal(value, DataTypes.IntegerType);
  }

  private static Alias named(Expression value, String name) {
    return new Alias(value, name, NamedExpression.newExprId(), seq(List.of()), Option.empty(), seq(List.of()));
  }

  private static <T> List<T> list(Seq<? extends T> given) {
    return new ArrayList<>(CollectionConverters.asJava(given));
  }

  private static <T> Seq<T> seq(List<? extends T> given) {
    return CollectionConverters.asScala(new ArrayList<T>(given)).toList();
  }
}
