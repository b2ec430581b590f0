// Package costs is the check of the gate that looks at what changes cost at the API
// server: writes, requests, watches and events, which are counted and strict, and
// passes and times, which depend on the machine and have a tolerance. Base and head
// are measured in turns, so that a machine that becomes slower does so for both.
package costs
