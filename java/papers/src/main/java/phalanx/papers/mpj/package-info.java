/**
 * Programs with the ranks of MPJ Express.
 */
package phalanx.papers.mpj;
