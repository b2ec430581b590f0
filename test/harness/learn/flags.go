// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Argument is an argument of the replicas, or the lack of one.
type Argument struct {
	// Text is the argument; "" if the program has no known flag for the purpose.
	Text string
	// Comment describes the effect of the missing flags, or is "".
	Comment string
}

// purpose is something that replicas on one machine need, with the known names of its flag.
type purpose struct {
	names []string
	value string
	// shipped means that the Deployment's own argument is as good.
	shipped bool
	// lack is the effect if the program has none of the flags.
	lack string
}

// healthAddress and metricsAddress are the possible addresses of a readiness probe.
var (
	healthAddress = purpose{
		names: []string{"health-probe-bind-address", "health-addr", "health-probe-addr", "probe-addr", "healthz-addr"},
		value: "127.0.0.1:{probe}",
		lack:  "no known flag for the address of /readyz; replicas that are not isolated need the argument with 127.0.0.1:{probe}",
	}
	metricsAddress = purpose{
		names: []string{"metrics-bind-address", "metrics-addr", "metrics-listen-address"}, value: "127.0.0.1:{metrics}",
		lack: "no known flag for the address of the metrics; if the program serves any, add the argument with 127.0.0.1:{metrics}",
	}
)

// purposes are in the order in which they are written.
var purposes = []purpose{
	{names: []string{"leader-elect", "enable-leader-election", "leader-election"}, value: "true", shipped: true},
	{names: []string{"leader-election-namespace", "leader-elect-resource-namespace"}, value: "{namespace}", shipped: true},
	{
		names: []string{"leader-elect-lease-duration", "leader-election-lease-duration", "lease-duration"}, value: "4s",
		lack: "no flag for the duration of the Lease: each death of a leader costs the program's own",
	},
	{names: []string{"leader-elect-renew-deadline", "leader-election-renew-deadline", "renew-deadline"}, value: "3s"},
	{names: []string{"leader-elect-retry-period", "leader-election-retry-period", "retry-period"}, value: "500ms"},
	healthAddress,
	metricsAddress,
	{names: []string{"metrics-secure"}, value: "false"},
	{names: []string{"webhook-host", "webhook-bind-host"}, value: "127.0.0.1"},
	{names: []string{"webhook-bind-address"}, value: "127.0.0.1:{webhook}"},
	{names: []string{"webhook-port"}, value: "{webhook}"},
}

// flagLine is a flag in a help text of package flag, of pflag or of klog.
var flagLine = regexp.MustCompile(`(?m)^\s+(?:-\w, )?--?([a-zA-Z][\w.-]+)`)

// Flags returns the names of the flags in a help text.
func Flags(help string) []string {
	var names []string
	for _, found := range flagLine.FindAllStringSubmatch(help, -1) {
		names = append(names, found[1])
	}
	return names
}

// Arguments returns the arguments after those of the Deployment, for free ports and a short Lease,
// by the program's help text and the Deployment's arguments. Some operators serve the probe on the
// metrics' port; zero means that it is unknown.
func Arguments(help string, shipped []string, probePort int) []Argument {
	known := Flags(help)
	chosen := purposes
	if metricsAddress.listensAt(probePort, help, shipped) && !healthAddress.listensAt(probePort, help, shipped) {
		chosen = slices.Clone(purposes)
		for i, p := range chosen {
			switch p.names[0] {
			case metricsAddress.names[0]:
				chosen[i].value = "127.0.0.1:{probe}"
			case healthAddress.names[0]:
				chosen[i].value, chosen[i].lack = "127.0.0.1:0", "" // any free port
			}
		}
	}
	var all []Argument
	for _, p := range chosen {
		name := p.flag(known)
		value, isSet := valueIn(name, shipped)
		switch {
		case name == "" && p.lack != "":
			all = append(all, Argument{Comment: p.lack})
		case name != "" && (!p.shipped || !isSet || value == "false"):
			all = append(all, Argument{Text: "--" + name + "=" + p.value})
		}
	}
	return all
}

// flag is the name that the program has for the purpose; "" if it has none.
func (p purpose) flag(known []string) string {
	if i := slices.IndexFunc(p.names, func(name string) bool { return slices.Contains(known, name) }); i >= 0 {
		return p.names[i]
	}
	return ""
}

// listensAt reports whether the address of this purpose has the port, by the Deployment's arguments or
// else by the default in the help text.
func (p purpose) listensAt(port int, help string, shipped []string) bool {
	name := p.flag(Flags(help))
	if name == "" || port == 0 {
		return false
	}
	set, _ := valueIn(name, shipped)
	address := cmp.Or(set, defaultIn(name, help))
	return address[strings.LastIndex(address, ":")+1:] == strconv.Itoa(port)
}

// valueIn is the value of a flag in arguments, and whether it is set there.
func valueIn(name string, args []string) (value string, isSet bool) {
	for i, arg := range args {
		flag, value, found := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case flag != name:
			continue
		case !found && i+1 < len(args):
			value = args[i+1]
		}
		return value, true
	}
	return "", false
}

// defaultValue is the default in the help text of a flag.
var defaultValue = regexp.MustCompile(`\(default "?([^")]*)`)

// defaultIn is the default of a flag in a help text, or "".
func defaultIn(name, help string) string {
	flags := flagLine.FindAllStringSubmatchIndex(help, -1)
	for i, at := range flags {
		end := len(help)
		if i+1 < len(flags) {
			end = flags[i+1][0]
		}
		if found := defaultValue.FindStringSubmatch(help[at[3]:end]); help[at[2]:at[3]] == name && found != nil {
			return found[1]
		}
	}
	return ""
}
