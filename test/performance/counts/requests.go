package counts

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// requestsFile has each request that was counted, phase by phase, for those who want
// to know what a number is made of.
const requestsFile = "requests.txt"

// keep writes that file, also of a story that broke off.
func (p *play) keep() (err error) {
	if err := os.MkdirAll(p.bench.Dir, 0o755); err != nil {
		return fmt.Errorf("making the folder of the requests: %w", err)
	}
	file, err := os.Create(filepath.Join(p.bench.Dir, requestsFile))
	if err != nil {
		return fmt.Errorf("keeping the requests: %w", err)
	}
	defer func() {
		if closeErr := file.Close(); closeErr != nil && err == nil {
			err = fmt.Errorf("keeping the requests: %w", closeErr)
		}
	}()
	out, told := bufio.NewWriter(file), 0
	for _, s := range append(p.spans, span{from: len(p.events), to: len(p.events)}) {
		write(out, "not counted", p.events[told:s.from])
		write(out, s.name, p.events[s.from:s.to])
		told = s.to
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("keeping the requests: %w", err)
	}
	return nil
}

func write(out *bufio.Writer, title string, events []auditv1.Event) {
	events = ours(events)
	if len(events) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n", title)
	for _, e := range events {
		key, _ := keyOf(e)
		fmt.Fprintf(out, "  %s %d %-45s %s/%s\n", e.RequestReceivedTimestamp.UTC().Format("15:04:05.000000"),
			e.ResponseStatus.Code, key, e.ObjectRef.Namespace, e.ObjectRef.Name)
	}
}
