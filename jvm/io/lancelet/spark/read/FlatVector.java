package io.lancelet.spark.read;

import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.BitVector;
import org.apache.arrow.vector.DateDayVector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.Float4Vector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.SmallIntVector;
import org.apache.arrow.vector.TimeStampMicroTZVector;
import org.apache.arrow.vector.TimeStampMicroVector;
import org.apache.arrow.vector.TinyIntVector;
import org.apache.arrow.vector.ValueVector;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of plain values, or of lists of them, read where Arrow has put it. Spark's own vector over Arrow goes through
 * several checked calls for each value; here a value is one load, and columns without nulls are not asked for them.
 *
 * <p>The buffers belong to the batch, and live until the next one is loaded.
 */
final class FlatVector extends ColumnVector {
  private static final int BITS = 3;
  private static final int BIT_OF_BYTE = 7;

  private final int nulls;
  private final long validity;
  private final long values;
  private final long offsets;

  /** Of lists: the values of all of them. */
  private final ColumnVector items;

  private FlatVector(DataType type, FieldVector vector, long values, long offsets, ColumnVector items) {
    super(type);
    this.nulls = vector.getNullCount();
    this.validity = vector.getValidityBufferAddress();
    this.values = values;
    this.offsets = offsets;
    this.items = items;
  }

  /** The same column, read directly where its layout is a plain one. */
  static ColumnVector of(ArrowColumnVector column) {
    ValueVector found = column.getValueVector();
    if (found instanceof BaseVariableWidthVector vector) {
      return new FlatVector(
          column.dataType(), vector, vector.getDataBufferAddress(), vector.getOffsetBufferAddress(), null);
    }
    if (found instanceof BaseFixedWidthVector vector && isPlain(vector)) {
      return new FlatVector(column.dataType(), vector, vector.getDataBufferAddress(), 0, null);
    }
    if (found instanceof ListVector vector && column.dataType() instanceof ArrayType) {
      ColumnVector items = of(new Borrowed(vector.getDataVector()));
      return new FlatVector(column.dataType(), vector, 0, vector.getOffsetBufferAddress(), items);
    }
    return new Borrowed(found);
  }

  /** Any other column. Spark closes the columns of a batch when it has read them, but these are loaded again. */
  private static final class Borrowed extends ArrowColumnVector {
    Borrowed(ValueVector vector) {
      super(vector);
    }

    @Override
    public void close() {}
  }

  /** Whether Spark has the same numbers as Arrow. */
  private static boolean isPlain(FieldVector vector) {
    return vector instanceof BitVector
        || vector instanceof TinyIntVector
        || vector instanceof SmallIntVector
        || vector instanceof IntVector
        || vector instanceof BigIntVector
        || vector instanceof Float4Vector
        || vector instanceof Float8Vector
        || vector instanceof DateDayVector
        || (vector instanceof DecimalVector decimals && decimals.getPrecision() <= Decimal.MAX_LONG_DIGITS())
        || vector instanceof TimeStampMicroVector
        || vector instanceof TimeStampMicroTZVector;
  }

  private static boolean bit(long address, int row) {
    return (Platform.getByte(null, address + (row >> BITS)) >> (row & BIT_OF_BYTE) & 1) == 1;
  }

  @Override
  public void close() {}

  @Override
  public boolean hasNull() {
    return nulls > 0;
  }

  @Override
  public int numNulls() {
    return nulls;
  }

  @Override
  public boolean isNullAt(int row) {
    return nulls > 0 && !bit(validity, row);
  }

  @Override
  public boolean getBoolean(int row) {
    return bit(values, row);
  }

  @Override
  public byte getByte(int row) {
    return Platform.getByte(null, values + row);
  }

  @Override
  public short getShort(int row) {
    return Platform.getShort(null, values + ((long) row << 1));
  }

  @Override
  public int getInt(int row) {
    return Platform.getInt(null, values + ((long) row << 2));
  }

  @Override
  public long getLong(int row) {
    return Platform.getLong(null, values + ((long) row << 3));
  }

  @Override
  public float getFloat(int row) {
    return Platform.getFloat(null, values + ((long) row << 2));
  }

  @Override
  public double getDouble(int row) {
    return Platform.getDouble(null, values + ((long) row << 3));
  }

  @Override
  public UTF8String getUTF8String(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int begin = offset(row);
    return UTF8String.fromAddress(null, values + begin, offset(row + 1) - begin);
  }

  @Override
  public byte[] getBinary(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int begin = offset(row);
    byte[] copied = new byte[offset(row + 1) - begin];
    Platform.copyMemory(null, values + begin, copied, Platform.BYTE_ARRAY_OFFSET, copied.length);
    return copied;
  }

  private int offset(int row) {
    return Platform.getInt(null, offsets + ((long) row << 2));
  }

  /** Of the sixteen bytes of a number with few digits, the first eight have all of it. */
  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    return isNullAt(row) ? null : Decimal.createUnsafe(Platform.getLong(null, values + ((long) row << 4)), precision, scale);
  }

  @Override
  public ColumnarArray getArray(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int begin = offset(row);
    return new ColumnarArray(items, begin, offset(row + 1) - begin);
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw new UnsupportedOperationException();
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    throw new UnsupportedOperationException();
  }
}
