// Package failover measures what it costs to lose the leader, F1 to F6: how long
// nobody leads, whether anybody writes who does not lead, how long a leader that is
// cut off goes on, how soon the next one works, and what the election asks of the API
// server. Two replicas run as processes; the leader is lost in every way that there is,
// again and again. Beside them, on control planes of their own and at the same time,
// runs the same operator with what controller-runtime does by itself.
// F8 is what a leader that was paused past its Lease still sends to S3.
package failover
