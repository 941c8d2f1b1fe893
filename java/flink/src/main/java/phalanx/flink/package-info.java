/**
 * Protected files for Apache Flink: {@code phalanx+file:///…}, {@code phalanx+s3://…}, {@code phalanx+hdfs://…} and others, for sources, sinks and
 * checkpoints. Flink finds {@link phalanx.flink.Schemes} by itself.
 */
package phalanx.flink;
