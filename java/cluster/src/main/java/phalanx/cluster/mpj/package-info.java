/**
 * The classes that need MPJ Express at compile time.
 */
package phalanx.cluster.mpj;
