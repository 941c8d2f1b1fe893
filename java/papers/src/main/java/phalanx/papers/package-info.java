/**
 * Programs that {@code phalanx-bench} measures. They protect nothing: their keys are constants.
 */
package phalanx.papers;
