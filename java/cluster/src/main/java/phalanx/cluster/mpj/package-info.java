/**
 * All that needs MPJ Express at compile time.
 */
package phalanx.cluster.mpj;
