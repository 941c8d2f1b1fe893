/**
 * Files protected by the ranks of a message passing job: processes, and threads in each.
 */
package phalanx.cluster;
