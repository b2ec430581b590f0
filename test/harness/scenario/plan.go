package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Fault is the name of what goes wrong, in words that are the same in plans, files and reports.
type Fault string

const (
	// CrashAfterWrite kills the replica after the API server has carried out a request and before
	// the answer arrives.
	CrashAfterWrite Fault = "crash-after-write"
	// LostResponse cuts the connection after the API server has carried out a request. The replica
	// lives on without the answer.
	LostResponse Fault = "lost-response"
	// FailedWrite answers with an error in place of the API server, which does not see the request. Its
	// variants are the codes.
	FailedWrite Fault = "failed-write"
	// OtherNamespace is no fault: the operator is installed in a namespace of another name, by
	// manifests of its own. It is not derived and is no part of a run.
	OtherNamespace Fault = "other-namespace"
)

// ManifestsTarget is the method of a target that is an installation's manifests.
const ManifestsTarget = "MANIFESTS"

// codes are the variants of FailedWrite.
var codes = []int{
	http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError,
	http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// kind describes a fault by its name.
type kind struct {
	// family is the name of a Family.
	family string
	// variants are the forms of the fault; "" is the fault without one.
	variants []string
}

// plain is a kind without variants.
func plain(family string) kind { return kind{family, []string{""}} }

// kinds has all faults.
var kinds = map[Fault]kind{
	CrashAfterWrite:      plain("crash-after-write"),
	LostResponse:         plain("lost-response"),
	FailedWrite:          {"failed-write", texts(codes)},
	LateWrite:            plain("late-write"),
	LeaderPause:          plain("leader-pause"),
	LeaderPauseReconnect: plain("leader-pause"),
	LeaderPartition:      plain("partition"),
	FullPartition:        plain("partition"),
	PartitionedStart:     plain("partition"),
	StopLeader:           plain("stop"),
	StopStandby:          plain("stop"),
	StopAtStart:          plain("stop"),
	SlowStop:             plain("stop"),
	FalseEvidence:        {"false-evidence", []string{VariantTerminated, VariantDeleted, VariantReplaced}},
	Upgrade:              plain("upgrade"),
	WatchDelay:           plain("watch-delay"),
	WatchGap:             plain("watch-gap"),
	StaleStart:           plain("stale-start"),
	FailedList:           {"failed-list", append(texts(raceCodes), VariantTimeout)},
	OtherNamespace:       plain("other-namespace"),
	MetadataStripped:     plain("environment"),
	ObjectDeleted:        plain("environment"),
	MetadataContested:    plain("environment"),
	ForeignFinalizer:     plain("environment"),
	FlagChange:           plain("installation"),
	RuleChange:           plain("installation"),
	WebhookChange:        plain("installation"),
	CRDChange:            plain("installation"),
	AttackFault:          plain("attack"),
	ExternalCrash:        plain("external"),
	ExternalLostResponse: plain("external"),
	ExternalError:        {"external", texts(externalCodes)},
	ExternalSlow:         plain("external"),
}

// Faults returns all faults, in order.
func Faults() []Fault { return slices.Sorted(maps.Keys(kinds)) }

// Family returns the family of the fault.
func (f Fault) Family() Family {
	i := slices.IndexFunc(families, func(known Family) bool { return known.Name == kinds[f].family })
	return families[i]
}

func texts(numbers []int) []string {
	var all []string
	for _, n := range numbers {
		all = append(all, strconv.Itoa(n))
	}
	return all
}

// Target is what a fault affects. For most faults it is the nth request of the subject with
// this method and path. Other faults have a word of their own as the method.
type Target struct {
	Method string `json:"method"`
	// Path has placeholders where it has names of the scenario.
	Path string `json:"path"`
	Nth  int    `json:"nth"`
}

// separator separates the parts of a plan's ID. Paths may contain it: the path starts after the
// third and ends before the last.
const separator = ":"

// Plan is one fault in one run of a scenario.
type Plan struct {
	Scenario string `json:"scenario"`
	Fault    Fault  `json:"fault"`
	// Variant is which of a fault's forms it is; "" if it has one only.
	Variant string `json:"variant,omitempty"`
	Target  Target `json:"target"`
}

// ID returns the plan as one word, which means the same in every run.
func (p Plan) ID() string {
	kind := string(p.Fault)
	if p.Variant != "" {
		kind += "-" + p.Variant
	}
	return strings.Join([]string{p.Scenario, kind, p.Target.Method, p.Target.Path, strconv.Itoa(p.Target.Nth)}, separator)
}

// ParsePlan reads an ID.
func ParsePlan(id string) (Plan, error) {
	p, err := parsePlan(id)
	// What is left out, or too much, shows when it is put together again.
	if err == nil && p.ID() != id {
		err = fmt.Errorf("it should be %q", p.ID())
	}
	if err != nil {
		return p, fmt.Errorf("reading plan %q: %w", id, err)
	}
	return p, nil
}

func parsePlan(id string) (p Plan, err error) {
	const beforePath = 3
	parts := strings.SplitN(id, separator, beforePath+1)
	if len(parts) != beforePath+1 {
		return p, errors.New("it is not scenario:fault:method:path:nth")
	}
	p.Scenario = parts[0]
	if p.Fault, p.Variant, err = parseForm(parts[1]); err != nil {
		return p, err
	}
	path, nth, _ := cutLast(parts[3])
	p.Target = Target{Method: parts[2], Path: path}
	if p.Target.Nth, err = strconv.Atoi(nth); err != nil {
		return p, fmt.Errorf("reading which request: %w", err)
	}
	return p, nil
}

// parseForm reads the name of a fault, and the variant that may follow it.
func parseForm(text string) (p Fault, variant string, err error) {
	if known, there := kinds[Fault(text)]; there && slices.Contains(known.variants, "") {
		return Fault(text), "", nil
	}
	for name, known := range kinds {
		variant, found := strings.CutPrefix(text, string(name)+"-")
		if found && slices.Contains(known.variants, variant) {
			return name, variant, nil
		}
		if found || text == string(name) {
			err = fmt.Errorf("%q is not one of the variants %q of %s", variant, known.variants, name)
		}
	}
	return "", "", cmp.Or(err, fmt.Errorf("no fault is called %q", text))
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}
