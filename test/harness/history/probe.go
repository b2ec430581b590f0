// SPDX-License-Identifier: Apache-2.0

package history

import "time"

// ProbeRequest is the kind of a probe of a replica's process.
type ProbeRequest string

const (
	// Ready requests /readyz.
	Ready ProbeRequest = "readyz"
	// Serves attempts a TLS handshake on the webhook port.
	Serves ProbeRequest = "webhook"
	// Work reads the metrics of queued and finished work.
	Work ProbeRequest = "work"
)

// ProbeResult is the result of a probe.
type ProbeResult string

const (
	// Yes is status 200, or a completed handshake.
	Yes ProbeResult = "yes"
	// No is any other status, or a failed handshake.
	No ProbeResult = "no"
	// NoAnswer means that there was no answer, as from a process that has ended or is paused.
	NoAnswer ProbeResult = "nothing"
	// Busy means that work is queued or in progress.
	Busy ProbeResult = "busy"
	// Idle means that there is no work.
	Idle ProbeResult = "idle"
)

// Finished is a figure of Work: the work items that the process has finished.
const Finished = "finished"

// Probe is one result, or several equal ones in a row.
type Probe struct {
	Replica string             `json:"replica"`
	Request ProbeRequest       `json:"question"`
	Result  ProbeResult        `json:"answer,omitempty"`
	Figures map[string]float64 `json:"figures,omitempty"`
	// First and Last are the times of the first and the last of them.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Detail is the body of a No.
	Detail string `json:"detail,omitempty"`
}

// Following is a collection that a replica lists and watches to see all its objects.
type Following struct {
	Replica string `json:"replica"`
	Resource
	// Path is the collection's, without parameters.
	Path  string    `json:"path"`
	Asked time.Time `json:"asked"`
	// Synced is when the replica had received all objects; zero if it had not.
	Synced time.Time `json:"synced,omitzero"`
}

// During reports whether the process ran at a time.
func (r Process) During(at time.Time) bool {
	return !at.Before(r.Started) && (r.Ended.IsZero() || at.Before(r.Ended))
}
