package history

import "time"

// Question is what a replica's process was asked.
type Question string

const (
	// Ready asks /readyz.
	Ready Question = "readyz"
	// Alive asks /healthz.
	Alive Question = "healthz"
	// Serves tries a TLS handshake on the port of the webhooks.
	Serves Question = "webhook"
	// Work asks whether there is any, and how much has been done so far.
	Work Question = "work"
	// Resources asks for what the process uses.
	Resources Question = "resources"
	// Memory asks for how much memory it uses, which is never the same twice.
	Memory Question = "memory"
)

// Answer is what was said to a Question.
type Answer string

const (
	// Yes is a 200, or a handshake that came about.
	Yes Answer = "yes"
	// No is any other code, or a handshake that failed.
	No Answer = "no"
	// Nothing is that nobody answered, as of a process that has ended or is paused.
	Nothing Answer = "nothing"
	// Busy is that work is queued or being done.
	Busy Answer = "busy"
	// Idle is that there is none.
	Idle Answer = "idle"
)

// Figures of Work, Resources and Memory.
const (
	// Finished is how many pieces of work the process has finished so far.
	Finished = "finished"
	// Goroutines and Files are those that it has, Watches those that it has open at
	// the API server.
	Goroutines = "goroutines"
	Files      = "files"
	Watches    = "watches"
	// Heap is the heap after the last garbage collection, as far as the process shows
	// it, and Resident what the system has given to the process. Both are in bytes.
	Heap     = "heap"
	Resident = "resident"
)

// Probe is an answer that was given once or several times in a row.
type Probe struct {
	Replica  string             `json:"replica"`
	Question Question           `json:"question"`
	Answer   Answer             `json:"answer,omitempty"`
	Figures  map[string]float64 `json:"figures,omitempty"`
	// First and Last are when it was given for the first and for the last time.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Detail is what was said, of a No.
	Detail string `json:"detail,omitempty"`
}

// Following is a collection that a replica has asked for, to know all that is in it.
type Following struct {
	Replica string `json:"replica"`
	Resource
	// Path is the collection's, without parameters.
	Path  string    `json:"path"`
	Asked time.Time `json:"asked"`
	// Synced is when it had been given all that there was; zero: it was not.
	Synced time.Time `json:"synced,omitzero"`
}

// During reports whether a moment lies in the life of the process.
func (r Replica) During(at time.Time) bool {
	return !at.Before(r.Started) && (r.Ended.IsZero() || at.Before(r.Ended))
}
