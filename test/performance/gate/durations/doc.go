// Package durations is the check of the gate that no test becomes much slower
// unnoticed. The tests that a change may affect are run in both trees; what looks
// slower is run again alone, in turns, before it is told.
//
// All of it is done within ten minutes. What there is no time for is named, not
// left out in silence.
package durations
