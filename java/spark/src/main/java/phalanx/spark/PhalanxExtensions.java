package phalanx.spark;

import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.ScalaUDF;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.Option;
import scala.Tuple3;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * The functions {@code phalanx_seal} and {@code phalanx_open} in every session of an application that is started with
 * {@code spark.sql.extensions=phalanx.spark.PhalanxExtensions}, in SQL and from Python, too.
 *
 * <pre>{@code
 * SELECT id, phalanx_seal(name, 'work', id) AS name FROM people
 * SELECT id, CAST(phalanx_open(name, 'work', id) AS STRING) AS name FROM sealed
 * }</pre>
 *
 * <p>The second argument is the name of a key, and never a key. The third is the user, which the result is bound to.
 */
public final class PhalanxExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
    /** Spark makes one by its name. */
    public PhalanxExtensions() {}

    @Override
    public BoxedUnit apply(SparkSessionExtensions extensions) {
        inject(extensions, "phalanx_seal", new Columns.Seal(), "the value, sealed by the key of this name for this user", false);
        inject(extensions, "phalanx_open", new Columns.Open(), "the value that phalanx_seal has sealed, as binary", true);
        return BoxedUnit.UNIT;
    }

    /**
     * Registers the functions in a session that was started without the extension.
     *
     * @param session the session
     */
    public static void register(SparkSession session) {
        var functions = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().functionRegistry();
        functions.createOrReplaceTempFunction("phalanx_seal", new Builder("phalanx_seal", new Columns.Seal(), false), "scala_udf");
        functions.createOrReplaceTempFunction("phalanx_open", new Builder("phalanx_open", new Columns.Open(), true), "scala_udf");
    }

    private static void inject(
            SparkSessionExtensions extensions, String name, Columns function, String usage, boolean isDeterministic) {
        ExpressionInfo info = new ExpressionInfo(
                Columns.class.getName(), null, name, "_FUNC_(column, key, user) - " + usage, "", "", "", "", "", "", "scala_udf");
        extensions.injectFunction(new Tuple3<>(new FunctionIdentifier(name), info, new Builder(name, function, isDeterministic)));
    }

    private static final class Builder extends AbstractFunction1<Seq<Expression>, Expression> {
        private final String name;
        private final Columns function;
        private final boolean isDeterministic;

        Builder(String name, Columns function, boolean isDeterministic) {
            this.name = name;
            this.function = function;
            this.isDeterministic = isDeterministic;
        }

        @Override
        public Expression apply(Seq<Expression> arguments) {
            if (arguments.size() != 3) {
                throw new IllegalArgumentException(name + " takes a column, the name of a key, and a user");
            }
            Expression user = arguments.apply(2);
            List<Expression> taken = List.of(
                    raw(arguments.apply(0)), arguments.apply(1), raw(cast(user, DataTypes.StringType)), user);
            return new ScalaUDF(function, DataTypes.BinaryType, CollectionConverters.asScala(taken).toSeq(), CollectionConverters.asScala(List.<Option<
                    org.apache.spark.sql.catalyst.encoders.ExpressionEncoder<?>>>of()).toSeq(), Option.empty(), Option.apply(name),
                    true, isDeterministic);
        }

        /** The bytes of a text. Spark would give a function text in which all that is not UTF-8 has become one and the same sign. */
        private static Expression raw(Expression text) {
            return cast(text, DataTypes.BinaryType);
        }

        /** Strictly, whatever the session's settings are: otherwise a number would become bytes. */
        private static Expression cast(Expression of, DataType to) {
            return new Cast(of, to, Option.empty(), EvalMode.ANSI());
        }
    }
}
