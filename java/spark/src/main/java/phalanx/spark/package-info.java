/** Protected files by the executors of Spark: the job of {@link phalanx.spark.Main}, and functions of its SQL. */
package phalanx.spark;
