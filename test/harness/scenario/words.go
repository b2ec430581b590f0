package scenario

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// form is a perturbation, or one of its variants where that needs words of its own.
type form struct {
	Perturbation
	variant string
}

// words say what each perturbation does, to people. VARIANT and TARGET stand for
// those of the plan; COLLECTION and STEP are the target where it is not a request.
var words = map[form]string{
	{DieAfterCommit, ""}:               "a replica is killed (SIGKILL) when the API server has done what it asked for with TARGET, before it is told so",
	{DieBeforeCommit, ""}:              "a replica is killed (SIGKILL) when it has sent TARGET, which the API server never sees",
	{LoseAnswer, ""}:                   "the API server does what a replica asks for with TARGET, and the answer is lost on its way; the process lives on",
	{Refuse, ""}:                       "a replica is told VARIANT in answer to TARGET, which the API server never sees",
	{DeliverLate, ""}:                  "a leader's TARGET is held on its way, and its Lease taken away meanwhile: it reaches the API server when another replica leads",
	{Pause, ""}:                        "the leader is paused (SIGSTOP) when the API server has done TARGET, and goes on when another replica leads",
	{Pause, VariantReconnect}:          "the leader is paused (SIGSTOP) when the API server has done TARGET, and watches of the Lease are cut twice a second and have to begin with a list, until another replica leads",
	{FalseEvidence, VariantTerminated}: "when the API server has done TARGET, the status of the leader's Pod shows that its container terminated, though the process runs",
	{FalseEvidence, VariantDeleted}:    "when the API server has done TARGET, the leader's Pod is deleted by force, though the process runs",
	{FalseEvidence, VariantReplaced}:   "when the API server has done TARGET, the leader's Pod is deleted by force and one of its name fails, though the process runs",
	{CutLease, ""}:                     "when the API server has done TARGET, the leader is cut off from its Lease, and from nothing else, until another replica leads",
	{CutLease, VariantRest}:            "when the API server has done TARGET, the leader is cut off from everything but its Lease, for longer than that lasts",
	{CutOff, VariantLeader}:            "when the API server has done TARGET, the leader is cut off from it until another replica leads",
	{CutOff, VariantAll}:               "when the API server has done TARGET, it is out of reach of all replicas, for longer than a Lease lasts",
	{CutOff, VariantStart}:             "when the API server has done TARGET, a replica that does not lead dies and starts again, out of reach of the API server for longer than a Lease lasts",
	{Ask, ""}:                          "the leader is asked to stop (SIGTERM) when the API server has done TARGET",
	{Ask, VariantStandby}:              "a replica that does not lead is asked to stop (SIGTERM) when the API server has done TARGET",
	{Ask, VariantStart}:                "when the API server has done TARGET, a replica that does not lead dies, starts again, and is asked to stop (SIGTERM) at its first request",
	{Ask, VariantSlow}:                 "the leader is asked to stop (SIGTERM) while TARGET is on its way, which takes some seconds",
	{Twins, VariantUnelected}:          "one more replica runs beside the others, and acts without being elected",
	{Twins, VariantUpgrade}:            "when the API server has done TARGET, all replicas are replaced, one after another, as by a Deployment",
	{LateNews, ""}:                     "for 3 s from STEP on, watches of COLLECTION tell nothing; then all of it, in order",
	{MissedNews, ""}:                   "at STEP watches of COLLECTION are cut and for 3 s refused; then the version to go on from has expired, and what came meanwhile is only seen in a list",
	{LostNews, ""}:                     "for 3 s from STEP on, watches of COLLECTION tell nothing though their connections stay open; then they are cut",
	{StaleStart, ""}:                   "3 s after STEP all replicas are killed (SIGKILL); those that start find COLLECTION as it was before, for 8 s",
	{StartRace, ""}:                    "before STEP all replicas are killed (SIGKILL); those that start are told VARIANT when they ask for COLLECTION, for 5 s",
	{StartRace, NoAnswer}:              "before STEP all replicas are killed (SIGKILL); those that start get no answer when they ask for COLLECTION, for 5 s",
	{WorldMoves, StripLabels}:          "when the API server has done TARGET, an administrator takes all labels and annotations off the object",
	{WorldMoves, RemoveChild}:          "when the API server has done TARGET, an administrator deletes the object",
	{WorldMoves, Rival}:                "when the API server has done TARGET, somebody else writes other values over the object for some seconds",

	{OutsideFails, OutsideDieAfter}:  "a replica is killed (SIGKILL) when what is outside the cluster has answered TARGET, before it is told so",
	{OutsideFails, OutsideDieBefore}: "a replica is killed (SIGKILL) when it has sent TARGET, which never comes to what is outside the cluster",
	{OutsideFails, OutsideLose}:      "what is outside the cluster answers TARGET, and the answer is lost on its way; the process lives on",
	{OutsideFails, OutsideSlow}:      "what is outside the cluster answers TARGET, and the answer comes late",
	{OutsideFails, ""}:               "a replica is told VARIANT in answer to TARGET, which never comes to what is outside the cluster",
	{WorldMoves, ForeignFinalizer}:   "before a user deletes an object, somebody else puts a finalizer on it, and takes it off a while after the operator's own is gone",
	{Changed, FlagChange}:            "before STEP all replicas are restarted, one after another, with the flag of the change COLLECTION, and then without it",
	{Changed, RuleChange}:            "for 3 s from STEP on, the operator lacks the right of the change COLLECTION",
	{Changed, WebhookChange}:         "for 3 s from STEP on, a webhook configuration is changed as COLLECTION says, unless the operator restores it",
	{Changed, DefinitionChange}:      "for 3 s from STEP on, a CustomResourceDefinition is changed as COLLECTION says",
	{Hostile, ""}:                    "a hostile user does step COLLECTION, which clean runs leave out",
	{Elsewhere, ""}:                  "nothing goes wrong, but the operator is installed in a namespace of another name",
}

// Words is the plan in a sentence.
func (p Plan) Words() string {
	said := cmp.Or(words[form{p.Perturbation, p.Variant}], words[form{p.Perturbation, ""}])
	variant := p.Variant
	if code, err := strconv.Atoi(variant); err == nil {
		variant = fmt.Sprintf("%d (%s)", code, http.StatusText(code))
	}
	target := fmt.Sprintf("%s of %s, number %d of its kind in the run", p.Target.Method, p.Target.Path, p.Target.Nth)
	return strings.NewReplacer("VARIANT", variant, "TARGET", target,
		"COLLECTION", p.Target.Path, "STEP", fmt.Sprintf("step %d of those that do something", p.Target.Nth)).Replace(said)
}
