/**
 * Protected files as a file system of Hadoop: {@link phalanx.hadoop.PhalanxFileSystem}, for Spark, Flink, Hive and all else that
 * reads and writes by Hadoop's interface.
 */
package phalanx.hadoop;
