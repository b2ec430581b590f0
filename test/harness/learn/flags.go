package learn

import (
	"regexp"
	"slices"
	"strings"
)

// Argument is an argument of the replicas, or the lack of one.
type Argument struct {
	// Text is the argument; "" if the program has no known flag for the purpose.
	Text string
	// Comment says what follows from the lack, or is "".
	Comment string
}

// purpose is something that replicas on one machine need, with the known names of its flag.
type purpose struct {
	names []string
	value string
	// shipped means that the Deployment's own argument is as good.
	shipped bool
	// lack is what follows if the program has none of the flags.
	lack string
}

// purposes are in the order in which they are written.
var purposes = []purpose{
	{names: []string{"leader-elect", "enable-leader-election", "leader-election"}, value: "true", shipped: true},
	{names: []string{"leader-election-namespace", "leader-elect-resource-namespace"}, value: "{namespace}", shipped: true},
	{
		names: []string{"leader-elect-lease-duration", "leader-election-lease-duration", "lease-duration"}, value: "4s",
		lack: "no flag for the duration of the Lease: each death of a leader costs the program's own, 15 s with controller-runtime",
	},
	{names: []string{"leader-elect-renew-deadline", "leader-election-renew-deadline", "renew-deadline"}, value: "3s"},
	{names: []string{"leader-elect-retry-period", "leader-election-retry-period", "retry-period"}, value: "500ms"},
	{
		names: []string{"health-probe-bind-address", "health-addr", "health-probe-addr", "probe-addr", "healthz-addr"},
		value: "127.0.0.1:{probe}",
		lack:  "no known flag for the address of /readyz; add the argument with 127.0.0.1:{probe}, or the replicas never become ready",
	},
	{
		names: []string{"metrics-bind-address", "metrics-addr", "metrics-listen-address"}, value: "127.0.0.1:{metrics}",
		lack: "no known flag for the address of the metrics; if the program serves any, add the argument with 127.0.0.1:{metrics}",
	},
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

// Arguments chooses, by the program's help text and the arguments of its Deployment, those that
// follow the Deployment's: free ports and a short Lease.
func Arguments(help string, shipped []string) []Argument {
	known := Flags(help)
	var all []Argument
	for _, p := range purposes {
		i := slices.IndexFunc(p.names, func(name string) bool { return slices.Contains(known, name) })
		switch {
		case i < 0 && p.lack != "":
			all = append(all, Argument{Comment: p.lack})
		case i >= 0 && (!p.shipped || !isSet(p.names[i], shipped)):
			all = append(all, Argument{Text: "--" + p.names[i] + "=" + p.value})
		}
	}
	return all
}

func isSet(name string, args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		flag, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return flag == name
	})
}
