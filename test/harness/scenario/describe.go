package scenario

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// form is a fault, or one variant that needs a description of its own.
type form struct {
	Fault
	variant string
}

// descriptions maps faults to sentences for people. VARIANT, TARGET, COLLECTION and STEP
// are filled from the plan.
var descriptions = map[form]string{
	{CrashAfterWrite, ""}:              "a replica is killed (SIGKILL) when the API server has carried out TARGET, before it receives the answer",
	{LostResponse, ""}:                 "the API server carries out a replica's TARGET, and the answer is lost on its way; the process lives on",
	{FailedWrite, ""}:                  "a replica receives VARIANT in answer to TARGET, which the API server never sees",
	{LateWrite, ""}:                    "a leader's TARGET is held on its way, and its Lease taken away meanwhile: it reaches the API server when another replica leads",
	{LeaderPause, ""}:                  "the leader is paused (SIGSTOP) when the API server has done TARGET, and goes on when another replica leads",
	{LeaderPauseReconnect, ""}:         "the leader is paused (SIGSTOP) when the API server has done TARGET, and watches of the Lease are cut twice a second and have to begin with a list, until another replica leads",
	{FalseEvidence, VariantTerminated}: "when the API server has done TARGET, the status of the leader's Pod shows that its container terminated, though the process runs",
	{FalseEvidence, VariantDeleted}:    "when the API server has done TARGET, the leader's Pod is deleted by force, though the process runs",
	{FalseEvidence, VariantReplaced}:   "when the API server has done TARGET, the leader's Pod is deleted by force and one of its name fails, though the process runs",
	{LeaderPartition, ""}:              "when the API server has done TARGET, the leader is cut off from it until another replica leads",
	{FullPartition, ""}:                "when the API server has done TARGET, it is out of reach of all replicas, for longer than a Lease lasts",
	{PartitionedStart, ""}:             "when the API server has done TARGET, a replica that does not lead dies and starts again, out of reach of the API server for longer than a Lease lasts",
	{StopLeader, ""}:                   "the leader receives SIGTERM when the API server has done TARGET",
	{StopStandby, ""}:                  "a replica that does not lead receives SIGTERM when the API server has done TARGET",
	{StopAtStart, ""}:                  "when the API server has done TARGET, a replica that does not lead dies, starts again, and receives SIGTERM at its first request",
	{SlowStop, ""}:                     "the leader receives SIGTERM while TARGET is on its way, which takes some seconds",
	{Upgrade, ""}:                      "when the API server has done TARGET, all replicas are replaced, one after another, as by a Deployment",
	{WatchDelay, ""}:                   "for 3 s from STEP on, watches of COLLECTION send nothing; then all of it, in order",
	{WatchGap, ""}:                     "at STEP watches of COLLECTION are cut and for 3 s refused; then the version to go on from has expired, and what came meanwhile is only seen in a list",
	{StaleStart, ""}:                   "3 s after STEP all replicas are killed (SIGKILL); those that start find COLLECTION as it was before, for 8 s",
	{FailedList, ""}:                   "before STEP all replicas are killed (SIGKILL); those that start receive VARIANT when they request COLLECTION, for 5 s",
	{FailedList, VariantTimeout}:       "before STEP all replicas are killed (SIGKILL); those that start get no answer when they request COLLECTION, for 5 s",
	{MetadataStripped, ""}:             "when the API server has done TARGET, an administrator takes all labels and annotations off the object",
	{ObjectDeleted, ""}:                "when the API server has done TARGET, an administrator deletes the object",
	{MetadataContested, ""}:            "when the API server has done TARGET, another controller writes other values over the object for some seconds",

	{ExternalCrash, ""}:        "a replica is killed (SIGKILL) when the external system has answered TARGET, before it receives the answer",
	{ExternalLostResponse, ""}: "the external system answers TARGET, and the answer is lost on its way; the process lives on",
	{ExternalSlow, ""}:         "the external system answers TARGET, and the answer comes late",
	{ExternalError, ""}:        "a replica receives VARIANT in answer to TARGET, which never reaches the external system",
	{ForeignFinalizer, ""}:     "before a user deletes an object, another controller puts a finalizer on it, and takes it off a while after the operator's own is gone",
	{FlagChange, ""}:           "before STEP all replicas are restarted, one after another, with the flag of the change COLLECTION, and then without it",
	{RuleChange, ""}:           "for 3 s from STEP on, the operator lacks the right of the change COLLECTION",
	{WebhookChange, ""}:        "for 3 s from STEP on, a webhook configuration is changed as COLLECTION says, unless the operator restores it",
	{CRDChange, ""}:            "for 3 s from STEP on, a CustomResourceDefinition is changed as COLLECTION says",
	{AttackFault, ""}:          "a hostile user does step COLLECTION, which clean runs leave out",
	{OtherNamespace, ""}:       "nothing goes wrong, but the operator is installed in a namespace of another name",
}

// Describe returns the plan in a sentence.
func (p Plan) Describe() string {
	variant, t := p.Variant, p.Target
	text := cmp.Or(descriptions[form{p.Fault, variant}], descriptions[form{p.Fault, ""}])
	if code, err := strconv.Atoi(variant); err == nil {
		variant = fmt.Sprintf("%d (%s)", code, http.StatusText(code))
	}
	target := fmt.Sprintf("%s of %s, number %d of its kind in the run", t.Method, t.Path, t.Nth)
	return strings.NewReplacer("VARIANT", variant, "TARGET", target,
		"COLLECTION", t.Path, "STEP", fmt.Sprintf("step %d of those that do something", t.Nth)).Replace(text)
}
