package trees

import (
	"context"
	"fmt"
	"strings"
)

// Trailers returns the values of the trailers of one name in the messages of the
// head's own commits, the oldest first. A head that is not in git has none.
func (t *Trees) Trailers(ctx context.Context, name string) ([]string, error) {
	if t.HeadCommit == "" {
		return nil, nil
	}
	out, err := git(ctx, t.root, "log", "--reverse",
		fmt.Sprintf("--format=%%(trailers:key=%s,valueonly,unfold)", name), t.BaseCommit+".."+t.HeadCommit)
	if err != nil {
		return nil, fmt.Errorf("reading the messages of %s..%s: %w", t.BaseCommit, t.HeadCommit, err)
	}
	var values []string
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "" {
			values = append(values, line)
		}
	}
	return values, nil
}
