package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	uberzap "go.uber.org/zap"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

func TestLoggedErrorsAreBounded(t *testing.T) {
	for _, development := range []bool{false, true} {
		var out bytes.Buffer
		logger := zap.New(zap.UseDevMode(development), zap.WriteTo(&out), zap.RawZapOpts(uberzap.WrapCore(boundErrors)))
		logger.Error(errors.New(strings.Repeat("x", maxLoggedError)), "short", "name", "a")
		if !strings.Contains(out.String(), strings.Repeat("x", maxLoggedError)) || strings.Contains(out.String(), "x ...") {
			t.Errorf("an error of %d bytes is truncated", maxLoggedError)
		}
		out.Reset()
		long := errors.New(strings.Repeat("x", 1<<20))
		logger.WithValues("cause", long).Error(long, "long", "name", "a")
		if n := out.Len(); n > 2*maxLoggedError+4<<10 || !strings.Contains(out.String(), "x ...") ||
			!strings.Contains(out.String(), "long") {
			t.Errorf("errors of 1 MiB make a line of %d bytes", n)
		}
		out.Reset()
		logger.V(1).Info("details")
		if out.Len() > 0 != development {
			t.Errorf("development %t: %q", development, out.String())
		}
	}
}
