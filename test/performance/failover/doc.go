// Package failover measures the loss of the leader, F1 to F6: the time without a leader,
// writes of replicas that do not lead, how long an isolated leader goes on, the time to the
// first work of the next leader, and the requests of the election. Two replicas run as
// processes. The leader is lost in each way, many times. At the same time the operator runs with
// controller-runtime's own election, on control planes of its own.
// F8 counts what a leader that was paused past its Lease still sends to S3.
package failover
